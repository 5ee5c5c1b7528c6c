"""Rate limits that count limit keys or all firms, and the buckets that belong to them.

On the way back the limits that the version before does not know, and their buckets, are deleted.
"""

from __future__ import annotations

from typing import Any

from django.db import migrations, models
from django.db.models import Q

from tenants.local_settings import ENGINE_SETTING

COUNTED_BY = {
    "max_length": 10,
    "choices": [("firm", "firm"), ("key", "key"), ("all_firms", "all_firms")],
    "default": "firm",
    "db_default": "firm",
}


def _limit_lock_waits(state: Any, schema_editor: Any) -> None:
    """Fail rather than let all claims wait behind a wait for the tables, which they read."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("SET LOCAL lock_timeout = '5s'")


def _keep_all(state: Any, schema_editor: Any) -> None:
    """Do nothing: all limits count firms."""


def _delete_others(state: Any, schema_editor: Any) -> None:
    _limit_lock_waits(state, schema_editor)
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute(f"SELECT set_config('{ENGINE_SETTING}', 'on', true)")
    for table in ("jobs_ratelimit", "jobs_ratebucket"):
        schema_editor.execute(f"DELETE FROM {table} WHERE counted_by <> 'firm'")


class Migration(migrations.Migration):
    dependencies = [("jobs", "0017_bulk_runs")]

    operations = [
        migrations.RunPython(_limit_lock_waits, migrations.RunPython.noop),
        migrations.RemoveConstraint(model_name="ratelimit", name="rate_limit_once"),
        migrations.AddField(
            model_name="ratelimit",
            name="counted_by",
            field=models.CharField(**COUNTED_BY, help_text="What is counted together: a firm's jobs, those of one limit key, or all firms'."),
        ),
        migrations.AddField(
            model_name="ratelimit",
            name="limit_key",
            field=models.CharField(blank=True, db_default="", default="", help_text="Where keys are counted: the one it is for; empty means each.", max_length=200),
        ),
        migrations.AddConstraint(
            model_name="ratelimit",
            constraint=models.UniqueConstraint(fields=["firm", "everywhere", "counted_by", "job_type", "limit_key"], name="rate_limit_once"),
        ),
        migrations.AddConstraint(
            model_name="ratelimit",
            constraint=models.CheckConstraint(condition=Q(counted_by__in=["firm", "key", "all_firms"]), name="rate_limit_counted_by_known"),
        ),
        migrations.RemoveConstraint(model_name="ratebucket", name="rate_bucket_once"),
        migrations.AddField(
            model_name="ratebucket",
            name="counted_by",
            field=models.CharField(**COUNTED_BY),
        ),
        migrations.AddField(
            model_name="ratebucket",
            name="limit_key",
            field=models.CharField(blank=True, db_default="", default="", help_text="Empty: any.", max_length=200),
        ),
        migrations.AddConstraint(
            model_name="ratebucket",
            constraint=models.UniqueConstraint(fields=["counted_by", "job_type", "limit_key", "firm"], name="rate_bucket_once"),
        ),
        migrations.AlterField(
            model_name="ratelimit",
            name="job_type",
            field=models.CharField(blank=True, help_text="Empty means every type with the limit key, counted together.", max_length=100),
        ),
        migrations.AlterField(
            model_name="ratelimit",
            name="amount",
            field=models.PositiveIntegerField(help_text="A job counts as its units, 1 unless declared."),
        ),
        migrations.AlterField(
            model_name="ratebucket",
            name="job_type",
            field=models.CharField(blank=True, help_text="Empty means any.", max_length=100),
        ),
        migrations.AlterField(
            model_name="ratebucket",
            name="granted",
            field=models.IntegerField(help_text="Units let through and not seen to have started, when it was last refilled."),
        ),
        migrations.RunPython(_keep_all, _delete_others),
    ]
