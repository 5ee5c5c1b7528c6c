"""The source of lease tokens, and how PostgreSQL keeps the hot table."""

from django.db import migrations

POSTGRESQL = [
    "CREATE SEQUENCE jobs_lease_token AS bigint",
    # Half of each page is left free, so that a claim's new row version fits beside the old one.
    """ALTER TABLE jobs_jobqueue SET (
        fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0.02)""",
    """ALTER TABLE jobs_worker SET (
        fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 100)""",
]
POSTGRESQL_BACK = [
    "ALTER TABLE jobs_worker RESET (fillfactor, autovacuum_vacuum_scale_factor, "
    "autovacuum_vacuum_threshold)",
    "ALTER TABLE jobs_jobqueue RESET (fillfactor, autovacuum_vacuum_scale_factor, "
    "autovacuum_vacuum_threshold, autovacuum_vacuum_cost_delay, autovacuum_analyze_scale_factor)",
    "DROP SEQUENCE jobs_lease_token",
]
SQLITE = [
    "CREATE TABLE jobs_lease_token (value INTEGER NOT NULL)",
    "INSERT INTO jobs_lease_token (value) VALUES (0)",
]
SQLITE_BACK = ["DROP TABLE jobs_lease_token"]


def _run(schema_editor, postgresql, sqlite):
    vendor = schema_editor.connection.vendor
    for statement in {"postgresql": postgresql, "sqlite": sqlite}[vendor]:
        schema_editor.execute(statement)


def forwards(apps, schema_editor):
    _run(schema_editor, POSTGRESQL, SQLITE)


def backwards(apps, schema_editor):
    _run(schema_editor, POSTGRESQL_BACK, SQLITE_BACK)


class Migration(migrations.Migration):
    dependencies = [("jobs", "0001_initial")]

    operations = [migrations.RunPython(forwards, backwards)]
