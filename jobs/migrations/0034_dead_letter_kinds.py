"""A dead letter has its job's category and type, which never change: counts need not read the job.

A trigger fills them in where they are not given, as by workers of the version before; on SQLite
whatever makes the table anew must make the trigger anew. 0035 fills in those of old letters.
"""

from __future__ import annotations

from typing import Any

from django.db import migrations, models

CATEGORIES = [
    (name, name)
    for name in (
        "ingestion",
        "sync",
        "recurrence",
        "orchestration",
        "documents",
        "notifications",
        "export",
        "maintenance",
    )
]
FUNCTION = """
CREATE FUNCTION jobs_dead_letter_kind() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    SELECT category, job_type INTO NEW.category, NEW.job_type FROM jobs_jobqueue
    WHERE firm_id = NEW.firm_id AND job_id = NEW.original_job_id;
    RETURN NEW;
END $$
"""
POSTGRESQL = (
    FUNCTION,
    "CREATE TRIGGER dead_letter_kind BEFORE INSERT ON jobs_deadletterqueue FOR EACH ROW"
    " WHEN (NEW.category IS NULL) EXECUTE FUNCTION jobs_dead_letter_kind()",
)
SQLITE = (
    "CREATE TRIGGER dead_letter_kind AFTER INSERT ON jobs_deadletterqueue"
    " WHEN NEW.category IS NULL BEGIN"
    " UPDATE jobs_deadletterqueue SET (category, job_type) ="
    " (SELECT category, job_type FROM jobs_jobqueue"
    " WHERE firm_id = NEW.firm_id AND job_id = NEW.original_job_id)"
    " WHERE id = NEW.id; END",
)
BACK = {
    "postgresql": (
        "DROP TRIGGER dead_letter_kind ON jobs_deadletterqueue",
        "DROP FUNCTION jobs_dead_letter_kind()",
    ),
    "sqlite": ("DROP TRIGGER dead_letter_kind",),
}


def _limit_lock_waits(_: Any, schema_editor: Any) -> None:
    """Fail rather than let all who dead-letter wait behind a wait for the table."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("SET LOCAL lock_timeout = '5s'")


def _make_trigger(_: Any, schema_editor: Any) -> None:
    is_postgresql = schema_editor.connection.vendor == "postgresql"
    for statement in POSTGRESQL if is_postgresql else SQLITE:
        schema_editor.execute(statement)


def _drop_trigger(_: Any, schema_editor: Any) -> None:
    for statement in BACK[schema_editor.connection.vendor]:
        schema_editor.execute(statement)


class Migration(migrations.Migration):

    dependencies = [("jobs", "0033_platform_sums")]

    operations = [
        migrations.RunPython(_limit_lock_waits, migrations.RunPython.noop),
        migrations.AddField(
            model_name="deadletterqueue",
            name="category",
            field=models.CharField(choices=CATEGORIES, editable=False, help_text="Its job's, as the type.", max_length=20, null=True),
        ),
        migrations.AddField(
            model_name="deadletterqueue",
            name="job_type",
            field=models.CharField(editable=False, max_length=100, null=True),
        ),
        migrations.RunPython(_make_trigger, _drop_trigger),
        migrations.RunPython(migrations.RunPython.noop, _limit_lock_waits),
    ]
