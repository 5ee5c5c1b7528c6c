"""An entry of the audit log may lose its content, and change in no other way.

Who, when and which operation stay as they are.
"""

from django.db import migrations

KEPT = (
    "id",
    "firm_id",
    "created_at",
    "actor_id",
    "actor_name",
    "door",
    "act",
    "target_type",
    "correlation_id",
)
ERASED = "NEW.reason = '' AND NEW.target_id IN (OLD.target_id, '')"

POSTGRESQL = """CREATE OR REPLACE FUNCTION tenants_audit_refuse() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN
    IF TG_OP = 'UPDATE' AND {kept} AND {erased}
        AND NEW.before = '{{}}'::jsonb AND NEW.after = '{{"erased": true}}'::jsonb
    THEN RETURN NEW; END IF;
    RAISE EXCEPTION 'the audit log is append-only';
END $$""".format(
    kept=" AND ".join(f"NEW.{name} IS NOT DISTINCT FROM OLD.{name}" for name in KEPT),
    erased=ERASED,
)
POSTGRESQL_BACK = """CREATE OR REPLACE FUNCTION tenants_audit_refuse() RETURNS trigger LANGUAGE plpgsql AS
$$ BEGIN RAISE EXCEPTION 'the audit log is append-only'; END $$"""
SQLITE = """CREATE TRIGGER audit_append_only BEFORE UPDATE ON tenants_auditentry
WHEN NOT ({kept} AND {erased} AND NEW.before = '{{}}' AND NEW.after = '{{"erased": true}}')
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END""".format(
    kept=" AND ".join(f"NEW.{name} IS OLD.{name}" for name in KEPT), erased=ERASED
)
SQLITE_BACK = """CREATE TRIGGER audit_append_only BEFORE UPDATE ON tenants_auditentry
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END"""


def _run(schema_editor, postgresql, sqlite):
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(postgresql)
    else:
        schema_editor.execute("DROP TRIGGER audit_append_only")
        schema_editor.execute(sqlite)


def forwards(apps, schema_editor):
    _run(schema_editor, POSTGRESQL, SQLITE)


def backwards(apps, schema_editor):
    _run(schema_editor, POSTGRESQL_BACK, SQLITE_BACK)


class Migration(migrations.Migration):
    dependencies = [("tenants", "0009_audit_outlives_firms")]

    operations = [migrations.RunPython(forwards, backwards)]
