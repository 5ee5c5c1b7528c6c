"""Batches: jobs that are enqueued as one, with a job for each event."""

import django.db.models.deletion
import django.db.models.functions.datetime
import uuid_utils.compat
from django.db import migrations, models

from tenants.rls import protect


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0031_saved_views'),
        ('tenants', '0010_audit_erasure'),
    ]

    operations = [
        migrations.CreateModel(
            name='Batch',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(blank=True, default='', max_length=200)),
                ('correlation_id', models.CharField(max_length=64)),
                ('callbacks', models.JSONField(default=dict, help_text='The validated jobs to enqueue, by their event.')),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('failed_at', models.DateTimeField(help_text='When the first of its jobs had failed.', null=True)),
                ('settled_at', models.DateTimeField(help_text='When all were over for the first time.', null=True)),
                ('completed_at', models.DateTimeField(help_text='When all were completed.', null=True)),
                ('failed_job_id', models.UUIDField(help_text='The job that its failure led to.', null=True)),
                ('settled_job_id', models.UUIDField(help_text='The job that followed when all were over.', null=True)),
                ('completed_job_id', models.UUIDField(help_text='The job that its completion led to.', null=True)),
                ('firm', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='tenants.firm')),
            ],
            options={
                'verbose_name_plural': 'batches',
                'indexes': [models.Index(fields=['firm', 'id'], name='batch_newest'), models.Index(condition=models.Q(('completed_at__isnull', True)), fields=['id'], name='batch_uncompleted')],
            },
        ),
        migrations.CreateModel(
            name='BatchMember',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('state', models.CharField(choices=[('completed', 'completed'), ('pending', 'pending'), ('failed', 'failed'), ('canceled', 'canceled')], max_length=10)),
                ('batch', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='members', to='jobs.batch')),
                ('firm', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='tenants.firm')),
                ('job', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='jobs.jobqueue')),
            ],
            options={
                'indexes': [models.Index(fields=['batch', 'state'], name='batch_member_states'), models.Index(condition=models.Q(('state__in', ('pending', 'failed', 'canceled'))), fields=['id'], name='batch_member_uncompleted')],
                'constraints': [models.UniqueConstraint(fields=('firm', 'job', 'batch'), name='batch_member_once'), models.CheckConstraint(condition=models.Q(('state__in', ('completed', 'pending', 'failed', 'canceled'))), name='batch_member_state_known')],
            },
        ),
        protect("jobs", "Batch", "BatchMember", engine=True),
    ]
