"""Limit keys: what pauses and circuit breakers can tell jobs of one firm and type apart by.

The new columns of the jobs table are filled by the database's defaults, so that no row is written.
On the way back what was set for single keys is deleted: it would hold back too much.
"""

from __future__ import annotations

from typing import Any

from django.db import migrations, models
from django.db.models import Q

from tenants.local_settings import ENGINE_SETTING

KEYED = ("jobs_pause", "jobs_circuitbreaker")


def _limit_lock_waits(state: Any, schema_editor: Any) -> None:
    """Fail rather than let all of the queue wait behind a wait for the table."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("SET LOCAL lock_timeout = '5s'")


def _keep_all(state: Any, schema_editor: Any) -> None:
    """Do nothing: there are no keys yet."""


def _delete_keyed(state: Any, schema_editor: Any) -> None:
    _limit_lock_waits(state, schema_editor)
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(f"SELECT set_config('{ENGINE_SETTING}', 'on', true)")
    for table in KEYED:
        schema_editor.execute(f"DELETE FROM {table} WHERE limit_key <> ''")


class Migration(migrations.Migration):
    dependencies = [("jobs", "0014_operated_counters")]

    operations = [
        migrations.RunPython(_limit_lock_waits, migrations.RunPython.noop),
        migrations.AddField(
            model_name="jobqueue",
            name="limit_key",
            field=models.CharField(blank=True, help_text="What pauses, breakers and rates can tell jobs of a type apart by.", max_length=200, null=True),
        ),
        migrations.AddField(
            model_name="jobqueue",
            name="limit_units",
            field=models.IntegerField(db_default=1, default=1, help_text="What the job counts for in rate limits."),
        ),
        migrations.AddField(
            model_name="fanin",
            name="limit_key",
            field=models.CharField(blank=True, max_length=200, null=True),
        ),
        migrations.AddField(
            model_name="fanin",
            name="limit_units",
            field=models.IntegerField(db_default=1, default=1),
        ),
        migrations.RemoveConstraint(model_name="pause", name="pause_once"),
        migrations.AddField(
            model_name="pause",
            name="limit_key",
            field=models.CharField(blank=True, db_default="", default="", help_text="Empty means jobs of every limit key, and those without one.", max_length=200),
        ),
        migrations.AddConstraint(
            model_name="pause",
            constraint=models.UniqueConstraint(fields=["firm", "everywhere", "category", "job_type", "limit_key"], name="pause_once"),
        ),
        migrations.RemoveConstraint(model_name="circuitbreaker", name="breaker_once"),
        migrations.RemoveIndex(model_name="circuitbreaker", name="breaker_not_closed"),
        migrations.AddField(
            model_name="circuitbreaker",
            name="limit_key",
            field=models.CharField(blank=True, db_default="", default="", help_text="Empty means the jobs without a limit key.", max_length=200),
        ),
        migrations.AddConstraint(
            model_name="circuitbreaker",
            constraint=models.UniqueConstraint(fields=["firm", "job_type", "limit_key"], name="breaker_once"),
        ),
        migrations.AddIndex(
            model_name="circuitbreaker",
            index=models.Index(condition=Q(state__in=["open", "half_open"]), fields=["firm", "job_type", "limit_key"], name="breaker_not_closed"),
        ),
        migrations.RunPython(_keep_all, _delete_keyed),
    ]
