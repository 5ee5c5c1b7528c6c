"""Jobs that run once others are settled."""

import django.db.models.deletion
import django.db.models.functions.datetime
import uuid_utils.compat
from django.db import migrations, models

from tenants.rls import protect


class Migration(migrations.Migration):
    dependencies = [("jobs", "0006_limits")]

    operations = [
        migrations.CreateModel(
            name='FanIn',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(help_text='The step of the parent that made it.', max_length=200)),
                ('category', models.CharField(choices=[('ingestion', 'ingestion'), ('sync', 'sync'), ('recurrence', 'recurrence'), ('orchestration', 'orchestration'), ('documents', 'documents'), ('notifications', 'notifications'), ('export', 'export'), ('maintenance', 'maintenance')], max_length=20)),
                ('job_type', models.CharField(max_length=100)),
                ('payload_version', models.CharField(max_length=20)),
                ('payload', models.JSONField()),
                ('correlation_id', models.CharField(max_length=64)),
                ('max_attempts', models.SmallIntegerField()),
                ('lock_key', models.CharField(blank=True, max_length=200, null=True)),
                ('lock_limit', models.SmallIntegerField()),
                ('idempotency_key', models.CharField(blank=True, max_length=200, null=True)),
                ('once_only', models.BooleanField()),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('fired_at', models.DateTimeField(blank=True, null=True)),
                ('then_job_id', models.UUIDField(blank=True, help_text='The job it led to, or the one that held its key.', null=True)),
                ('firm', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='tenants.firm')),
                ('parent', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='fan_ins', to='jobs.jobqueue')),
            ],
        ),
        migrations.CreateModel(
            name='FanInMember',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('fan_in', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, related_name='members', to='jobs.fanin')),
                ('firm', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='tenants.firm')),
                ('job', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='jobs.jobqueue')),
            ],
        ),
        migrations.AddConstraint(
            model_name='fanin',
            constraint=models.UniqueConstraint(fields=('firm', 'parent', 'name'), name='fan_in_once_per_step'),
        ),
        migrations.AddConstraint(
            model_name='fanin',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('fired_at__isnull', True), ('then_job_id__isnull', True)), models.Q(('fired_at__isnull', False), ('then_job_id__isnull', False)), _connector='OR'), name='fan_in_fired_means_enqueued'),
        ),
        migrations.AddConstraint(
            model_name='faninmember',
            constraint=models.UniqueConstraint(fields=('firm', 'job', 'fan_in'), name='fan_in_member_once'),
        ),
        protect("jobs", "FanIn", "FanInMember", engine=True),
    ]
