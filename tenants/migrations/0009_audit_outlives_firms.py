"""The audit log outlives the firms, and nothing deletes from it on SQLite either.

Django rebuilds a table on SQLite to change a column, and its triggers go with the old one.
"""

import django.db.models.deletion
from django.db import migrations, models

SQLITE = [
    """CREATE TRIGGER audit_append_only BEFORE UPDATE ON tenants_auditentry
    BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END""",
    """CREATE TRIGGER audit_never_deleted BEFORE DELETE ON tenants_auditentry
    BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END""",
]


def forwards(apps, schema_editor):
    if schema_editor.connection.vendor == "sqlite":
        schema_editor.execute("DROP TRIGGER IF EXISTS audit_append_only")
        for statement in SQLITE:
            schema_editor.execute(statement)


def backwards(apps, schema_editor):
    if schema_editor.connection.vendor == "sqlite":
        schema_editor.execute("DROP TRIGGER IF EXISTS audit_never_deleted")
        schema_editor.execute("DROP TRIGGER IF EXISTS audit_append_only")
        schema_editor.execute(SQLITE[0])


class Migration(migrations.Migration):
    dependencies = [("tenants", "0008_request_counts")]

    operations = [
        # Undone last: the old table has its first trigger again.
        migrations.RunPython(migrations.RunPython.noop, backwards),
        migrations.AlterField(
            model_name="auditentry",
            name="firm",
            field=models.ForeignKey(
                db_constraint=False,
                db_index=False,
                on_delete=django.db.models.deletion.DO_NOTHING,
                related_name="+",
                to="tenants.firm",
            ),
        ),
        migrations.RunPython(forwards, migrations.RunPython.noop),
    ]
