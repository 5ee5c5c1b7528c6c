"""Schedules."""

import django.db.models.deletion
import django.db.models.functions.datetime
import uuid_utils.compat
from django.db import migrations, models

import jobs.states
from tenants.rls import protect


class Migration(migrations.Migration):
    dependencies = [("jobs", "0007_fan_in")]

    operations = [
        migrations.CreateModel(
            name='Schedule',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=100)),
                ('target', models.CharField(choices=[('firm', 'firm'), ('every_firm', 'every_firm'), ('every_member', 'every_member')], default=jobs.states.ScheduleTarget['FIRM'], help_text='Whom each run is for: its firm, every active firm, or every member of a group.', max_length=20)),
                ('group_name', models.CharField(blank=True, default='', help_text='Which group, for target every_member.', max_length=50)),
                ('cron', models.CharField(blank=True, help_text='Minute, hour, day, month, weekday; either this or an interval.', max_length=100, null=True)),
                ('interval_seconds', models.PositiveBigIntegerField(blank=True, help_text='Counted from slot to slot.', null=True)),
                ('time_zone', models.CharField(default='UTC', help_text='The zone whose clock the cron expression names.', max_length=50)),
                ('job_type', models.CharField(max_length=100)),
                ('payload', models.JSONField(blank=True, default=dict, help_text="The payload of every run, but for the envelope and what a group's member adds.")),
                ('priority', models.SmallIntegerField(choices=[(0, 'critical'), (1, 'high'), (2, 'normal'), (3, 'low')], default=jobs.states.Priority['NORMAL'])),
                ('missed_runs', models.CharField(choices=[('skip', 'skip'), ('run_once', 'run_once')], default=jobs.states.MissedRuns['SKIP'], help_text='What becomes of slots that passed while no worker was there.', max_length=10)),
                ('enabled', models.BooleanField(default=True)),
                ('last_run_at', models.DateTimeField(blank=True, editable=False, null=True)),
                ('next_run_at', models.DateTimeField(editable=False, help_text='The next slot; a paused schedule keeps the one it stopped at.')),
                ('last_error', models.TextField(blank=True, default='', editable=False, help_text='Why the last run came to nothing.')),
                ('shipped', models.JSONField(blank=True, editable=False, help_text='What the code declared last; what differs from it was changed by a person.', null=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('updated_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('firm', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='tenants.firm')),
            ],
            options={
                'verbose_name': 'schedule',
                'indexes': [models.Index(condition=models.Q(('enabled', True)), fields=['next_run_at'], name='schedule_due')],
                'constraints': [models.UniqueConstraint(fields=('firm', 'name'), name='schedule_name_once'), models.CheckConstraint(condition=models.Q(models.Q(('cron__isnull', True), ('interval_seconds__gt', 0)), models.Q(('cron__isnull', False), ('interval_seconds__isnull', True)), _connector='OR'), name='schedule_cron_or_interval'), models.CheckConstraint(condition=models.Q(('target__in', [jobs.states.ScheduleTarget['FIRM'], jobs.states.ScheduleTarget['EVERY_FIRM'], jobs.states.ScheduleTarget['EVERY_MEMBER']])), name='schedule_target_known'), models.CheckConstraint(condition=models.Q(('missed_runs__in', [jobs.states.MissedRuns['SKIP'], jobs.states.MissedRuns['RUN_ONCE']])), name='schedule_missed_runs_known')],
            },
        ),
        protect("jobs", "Schedule", engine=True),
    ]
