"""Old dead letters get their job's category and type, and the open ones an index in the order of jobs.

A thousand letters in each transaction; the index is built beside the traffic.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from django.db import migrations, models, transaction
from django.db.models import Q

from tenants.local_settings import ENGINE_SETTING

AddIndexInPassing = import_module("jobs.migrations.0011_lanes").AddIndexInPassing

CHUNK = 1_000
NEXT = "SELECT id FROM jobs_deadletterqueue WHERE id > %s ORDER BY id LIMIT"
FILL = """
UPDATE jobs_deadletterqueue SET (category, job_type) = (
    SELECT q.category, q.job_type FROM jobs_jobqueue q
    WHERE q.firm_id = jobs_deadletterqueue.firm_id
        AND q.job_id = jobs_deadletterqueue.original_job_id)
WHERE category IS NULL AND id IN"""


def fill(_: Any, schema_editor: Any) -> None:
    """Fill in category and type, in the order of the ids."""
    connection = schema_editor.connection
    is_postgresql = connection.vendor == "postgresql"
    last: Any = "00000000-0000-0000-0000-000000000000" if is_postgresql else ""
    while last is not None:
        with transaction.atomic(using=connection.alias), connection.cursor() as cursor:
            if is_postgresql:
                cursor.execute(f"SELECT set_config('{ENGINE_SETTING}', 'on', true)")
            cursor.execute(f"{FILL} ({NEXT} {CHUNK})", [last])
            cursor.execute(f"{NEXT} 1 OFFSET {CHUNK - 1}", [last])
            row = cursor.fetchone()
            last = None if row is None else row[0]


class Migration(migrations.Migration):
    # An index is built in passing only outside a transaction.
    atomic = False

    dependencies = [("jobs", "0034_dead_letter_kinds")]

    operations = [
        migrations.RunPython(fill, migrations.RunPython.noop),
        AddIndexInPassing(
            model_name="deadletterqueue",
            index=models.Index(
                fields=["original_job"],
                condition=Q(resolution__in=["", "escalated"]),
                name="dead_letter_open_job",
            ),
        ),
    ]
