"""The audit log takes new entries and nothing else; the database sees to it.

SQLite refuses changes; deletion there is refused by the model alone, since test runners empty
tables by deleting.
"""

from django.db import migrations

POSTGRESQL = [
    """CREATE FUNCTION tenants_audit_refuse() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'the audit log is append-only'; END $$""",
    """CREATE TRIGGER audit_append_only BEFORE UPDATE OR DELETE ON tenants_auditentry
    FOR EACH ROW EXECUTE FUNCTION tenants_audit_refuse()""",
]
POSTGRESQL_BACK = [
    "DROP TRIGGER audit_append_only ON tenants_auditentry",
    "DROP FUNCTION tenants_audit_refuse()",
]
SQLITE = [
    """CREATE TRIGGER audit_append_only BEFORE UPDATE ON tenants_auditentry
    BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END""",
]
SQLITE_BACK = ["DROP TRIGGER audit_append_only"]


def _run(schema_editor, postgresql, sqlite):
    vendor = schema_editor.connection.vendor
    for statement in {"postgresql": postgresql, "sqlite": sqlite}[vendor]:
        schema_editor.execute(statement)


def forwards(apps, schema_editor):
    _run(schema_editor, POSTGRESQL, SQLITE)


def backwards(apps, schema_editor):
    _run(schema_editor, POSTGRESQL_BACK, SQLITE_BACK)


class Migration(migrations.Migration):
    dependencies = [("tenants", "0004_row_level_security")]

    operations = [migrations.RunPython(forwards, backwards)]
