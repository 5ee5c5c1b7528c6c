"""What the dashboard reads: counters by the hour, times by bucket, failing types, versions.

The hours begin with what the minutes have. Workers of the version before go on with the minutes
alone, so charts over days leave out what these count meanwhile. `requested` is what an operator
asks of a worker.
"""

from __future__ import annotations

from typing import Any

import django.db.models.deletion
import django.db.models.functions.datetime
import uuid_utils.compat
from django.db import migrations, models

from tenants.rls import protect
from tenants.local_settings import ENGINE_SETTING

COUNTERS = (
    "completed",
    "failed",
    "dlq",
    "canceled",
    "retried",
    "discarded",
    "failed_restarted",
    "canceled_restarted",
    "wait_ms",
    "run_ms",
)
NEW_ID = {"postgresql": "gen_random_uuid()", "sqlite": "lower(hex(randomblob(16)))"}
HOUR = {
    "postgresql": "date_trunc('hour', minute)",
    "sqlite": "strftime('%Y-%m-%d %H', minute) || ':00:00.000000'",
}


def _limit_lock_waits(state: Any, schema_editor: Any) -> None:
    """Fail rather than let all heartbeats wait behind a wait for the workers' table."""
    if schema_editor.connection.vendor == "postgresql":
        schema_editor.execute("SET LOCAL lock_timeout = '5s'")


def _sum_hours(state: Any, schema_editor: Any) -> None:
    vendor = schema_editor.connection.vendor
    if vendor == "postgresql":
        schema_editor.execute(f"SELECT set_config('{ENGINE_SETTING}', 'on', true)")
    schema_editor.execute(
        f"""
        INSERT INTO jobs_jobhour (id, firm_id, category, minute, {", ".join(COUNTERS)})
        SELECT {NEW_ID[vendor]}, firm_id, category, {HOUR[vendor]},
            {", ".join(f"sum({name})" for name in COUNTERS)}
        FROM jobs_jobminute GROUP BY firm_id, category, {HOUR[vendor]}
        """
    )


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0018_rates_by_key'),
        ('tenants', '0008_request_counts'),
    ]

    operations = [
        migrations.RunPython(_limit_lock_waits, migrations.RunPython.noop),
        migrations.CreateModel(
            name='WorkerVersion',
            fields=[
                ('version', models.CharField(max_length=50, primary_key=True, serialize=False)),
                ('first_seen_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now())),
            ],
        ),
        migrations.AddField(
            model_name='worker',
            name='requested',
            field=models.CharField(blank=True, choices=[('quiet', 'quiet'), ('drain', 'drain'), ('stop', 'stop')], db_default='', default='', help_text='What an operator asked of it; the next heartbeat reads it. Empty means work.', max_length=10),
        ),
        migrations.CreateModel(
            name='FailingType',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('job_type', models.CharField(max_length=100)),
                ('failing_since', models.DateTimeField()),
                ('last_failed_at', models.DateTimeField()),
                ('firm', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='tenants.firm')),
            ],
            options={
                'indexes': [models.Index(fields=['last_failed_at'], name='failing_type_newest')],
                'constraints': [models.UniqueConstraint(fields=('firm', 'job_type'), name='failing_type_once')],
            },
        ),
        migrations.CreateModel(
            name='JobHour',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('minute', models.DateTimeField()),
                ('category', models.CharField(choices=[('ingestion', 'ingestion'), ('sync', 'sync'), ('recurrence', 'recurrence'), ('orchestration', 'orchestration'), ('documents', 'documents'), ('notifications', 'notifications'), ('export', 'export'), ('maintenance', 'maintenance')], max_length=20)),
                ('completed', models.IntegerField(db_default=0, default=0)),
                ('failed', models.IntegerField(db_default=0, default=0)),
                ('dlq', models.IntegerField(db_default=0, default=0)),
                ('canceled', models.IntegerField(db_default=0, default=0)),
                ('retried', models.IntegerField(db_default=0, default=0)),
                ('discarded', models.IntegerField(db_default=0, default=0, help_text='From dlq to failed, by an operator.')),
                ('failed_restarted', models.IntegerField(db_default=0, default=0, help_text='From failed to pending, by an operator.')),
                ('canceled_restarted', models.IntegerField(db_default=0, default=0, help_text='From canceled to pending, by an operator.')),
                ('wait_ms', models.BigIntegerField(db_default=0, default=0, help_text='Sum over settled jobs.')),
                ('run_ms', models.BigIntegerField(db_default=0, default=0, help_text='Sum over settled jobs.')),
                ('firm', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='tenants.firm')),
            ],
            options={
                'indexes': [models.Index(fields=['minute'], name='job_hour_newest')],
                'constraints': [models.UniqueConstraint(fields=('firm', 'category', 'minute'), name='job_hour_once')],
            },
        ),
        migrations.CreateModel(
            name='LatencyBucket',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('category', models.CharField(choices=[('ingestion', 'ingestion'), ('sync', 'sync'), ('recurrence', 'recurrence'), ('orchestration', 'orchestration'), ('documents', 'documents'), ('notifications', 'notifications'), ('export', 'export'), ('maintenance', 'maintenance')], max_length=20)),
                ('measure', models.CharField(choices=[('wait', 'wait'), ('run', 'run')], max_length=5)),
                ('span_minutes', models.SmallIntegerField()),
                ('span_start', models.DateTimeField()),
                ('bucket', models.SmallIntegerField(help_text='Its place in BUCKET_SECONDS; the last is open.')),
                ('attempts', models.BigIntegerField()),
                ('firm', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='tenants.firm')),
            ],
            options={
                'indexes': [models.Index(fields=['span_minutes', 'span_start'], name='latency_newest')],
                'constraints': [models.UniqueConstraint(fields=('firm', 'category', 'measure', 'span_minutes', 'span_start', 'bucket'), name='latency_bucket_once')],
            },
        ),
        protect("jobs", "FailingType", "JobHour", "LatencyBucket", engine=True),
        migrations.RunPython(_sum_hours, migrations.RunPython.noop),
    ]
