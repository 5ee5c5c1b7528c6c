"""Bulk runs: one operation on many dead letters or jobs, and those it is done to."""

import django.db.models.deletion
import django.db.models.functions.datetime
import jobs.states
import uuid_utils.compat
from django.conf import settings
from django.db import migrations, models

from tenants.rls import protect


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0016_waiting_groups_by_limit_key'),
        ('tenants', '0008_request_counts'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='BulkRun',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('operation', models.CharField(choices=[('reprocess', 'reprocess'), ('discard', 'discard'), ('retry', 'retry'), ('cancel', 'cancel'), ('set_priority', 'set_priority')], max_length=15)),
                ('selection', models.JSONField(help_text='The filter or the number of ids that were given.')),
                ('reason', models.TextField(blank=True, default='')),
                ('priority', models.SmallIntegerField(blank=True, help_text='To set.', null=True)),
                ('rate_per_second', models.FloatField(blank=True, help_text='Empty means no limit.', null=True)),
                ('canary_size', models.IntegerField(default=0, help_text='0 means no canary.')),
                ('canary_max_failure_rate', models.FloatField(default=0.2)),
                ('canary_passed_at', models.DateTimeField(blank=True, null=True)),
                ('state', models.CharField(choices=[('running', 'running'), ('completed', 'completed'), ('stopped', 'stopped'), ('canary_failed', 'canary_failed')], default='running', max_length=15)),
                ('total', models.IntegerField(default=0, help_text='Members, fixed at the start.')),
                ('done', models.IntegerField(default=0)),
                ('refused', models.IntegerField(default=0, help_text='Members whose state no longer allowed it.')),
                ('job_id', models.UUIDField(help_text='The job that does it.')),
                ('correlation_id', models.CharField(help_text='Of the job and of every audit entry.', max_length=64)),
                ('door', models.CharField(max_length=20)),
                ('started_by_name', models.CharField(help_text='As the audit log says it.', max_length=200)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('last_chunk_at', models.DateTimeField(blank=True, null=True)),
                ('rate_used_until', models.DateTimeField(blank=True, help_text='The rate allows what it gives from then on.', null=True)),
                ('finished_at', models.DateTimeField(blank=True, null=True)),
                ('firm', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='tenants.firm')),
                ('started_by', models.ForeignKey(null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'bulk run',
            },
        ),
        migrations.CreateModel(
            name='BulkMember',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('target_id', models.UUIDField(help_text='The dead letter, or the job.')),
                ('job_id', models.UUIDField(help_text="The dead letter's job, or the job itself.")),
                ('state', models.CharField(choices=[('pending', 'pending'), ('done', 'done'), ('refused', 'refused')], default='pending', max_length=10)),
                ('note', models.CharField(blank=True, default='', help_text='Why it was refused.', max_length=200)),
                ('firm', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='tenants.firm')),
                ('run', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='members', to='jobs.bulkrun')),
            ],
        ),
        migrations.AddIndex(
            model_name='bulkrun',
            index=models.Index(fields=['firm', 'id'], name='bulk_run_newest'),
        ),
        migrations.AddConstraint(
            model_name='bulkrun',
            constraint=models.CheckConstraint(condition=models.Q(('operation__in', [jobs.states.BulkOperation['REPROCESS'], jobs.states.BulkOperation['DISCARD'], jobs.states.BulkOperation['RETRY'], jobs.states.BulkOperation['CANCEL'], jobs.states.BulkOperation['SET_PRIORITY']])), name='bulk_run_operation_known'),
        ),
        migrations.AddConstraint(
            model_name='bulkrun',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', [jobs.states.BulkState['RUNNING'], jobs.states.BulkState['COMPLETED'], jobs.states.BulkState['STOPPED'], jobs.states.BulkState['CANARY_FAILED']])), name='bulk_run_state_known'),
        ),
        migrations.AddIndex(
            model_name='bulkmember',
            index=models.Index(fields=['run', 'target_id'], name='bulk_member_order'),
        ),
        migrations.AddIndex(
            model_name='bulkmember',
            index=models.Index(condition=models.Q(('state', 'pending')), fields=['run', 'target_id'], name='bulk_member_pending'),
        ),
        migrations.AddConstraint(
            model_name='bulkmember',
            constraint=models.UniqueConstraint(fields=('firm', 'run', 'target_id'), name='bulk_member_once'),
        ),
        migrations.AddConstraint(
            model_name='bulkmember',
            constraint=models.CheckConstraint(condition=models.Q(('state__in', [jobs.states.MemberState['PENDING'], jobs.states.MemberState['DONE'], jobs.states.MemberState['REFUSED']])), name='bulk_member_state_known'),
        ),
        protect("jobs", "BulkRun", "BulkMember", engine=True),
    ]
