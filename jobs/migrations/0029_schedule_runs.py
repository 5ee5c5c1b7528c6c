"""What became of each run of a schedule."""

import django.db.models.deletion
import django.db.models.functions.datetime
import jobs.states
import uuid_utils.compat
from django.db import migrations, models

from tenants.rls import protect


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0028_chains'),
        ('tenants', '0010_audit_erasure'),
    ]

    operations = [
        migrations.CreateModel(
            name='ScheduleRun',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('slot', models.DateTimeField(help_text='Null: somebody ran it out of turn.', null=True)),
                ('job_type', models.CharField(max_length=100)),
                ('correlation_id', models.CharField(max_length=64)),
                ('jobs', models.IntegerField(default=0, help_text='How many it enqueued.')),
                ('first_job_id', models.UUIDField(null=True)),
                ('last_job_id', models.UUIDField(null=True)),
                ('completed', models.IntegerField(db_default=0, default=0)),
                ('failed', models.IntegerField(db_default=0, default=0, help_text='Of its jobs; dead-lettered ones among them.')),
                ('canceled', models.IntegerField(db_default=0, default=0, help_text='Of its jobs; deleted ones among them.')),
                ('enqueued_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('started_at', models.DateTimeField(help_text='When the first of its jobs started.', null=True)),
                ('finished_at', models.DateTimeField(help_text='When the last of them was over.', null=True)),
                ('outcome', models.CharField(choices=[('completed', 'completed'), ('failed', 'failed'), ('canceled', 'canceled'), ('nothing', 'nothing'), ('refused', 'refused'), ('skipped', 'skipped')], help_text='Null while it goes on.', max_length=10, null=True)),
                ('error', models.TextField(blank=True, default='', help_text='Why it was refused. Redacted.')),
                ('firm', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='tenants.firm')),
                ('schedule', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='jobs.schedule')),
            ],
            options={
                'indexes': [models.Index(fields=['firm', 'schedule', 'id'], name='schedule_run_newest'), models.Index(fields=['firm', 'id'], name='schedule_run_age'), models.Index(condition=models.Q(('finished_at__isnull', True)), fields=['id'], name='schedule_run_open')],
                'constraints': [models.CheckConstraint(condition=models.Q(('outcome__isnull', True), ('outcome__in', [jobs.states.RunOutcome['COMPLETED'], jobs.states.RunOutcome['FAILED'], jobs.states.RunOutcome['CANCELED'], jobs.states.RunOutcome['NOTHING'], jobs.states.RunOutcome['REFUSED'], jobs.states.RunOutcome['SKIPPED']]), _connector='OR'), name='schedule_run_outcome_known')],
            },
        ),
        protect("jobs", "ScheduleRun", engine=True),
    ]
