"""Circuit breakers: which firm's jobs of which type are not tried for now."""

import django.db.models.deletion
import jobs.states
import uuid_utils.compat
from django.db import migrations, models

from tenants.rls import protect


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0008_schedules'),
        ('tenants', '0007_limited_firms'),
    ]

    operations = [
        migrations.CreateModel(
            name='CircuitBreaker',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('job_type', models.CharField(max_length=100)),
                ('state', models.CharField(choices=[('closed', 'closed'), ('open', 'open'), ('half_open', 'half open')], default=jobs.states.BreakerState['CLOSED'], max_length=10)),
                ('attempts', models.IntegerField(default=0, help_text='In this window, failed or not.')),
                ('failures', models.JSONField(default=dict, help_text='In this window, how many per fingerprint.')),
                ('window_ends_at', models.DateTimeField(help_text='Then counting begins anew.')),
                ('trips', models.IntegerField(default=0, help_text='How often it opened in a row; each time for twice as long.')),
                ('fingerprint', models.CharField(blank=True, default='', help_text='The failure that opened it.', max_length=32)),
                ('opened_at', models.DateTimeField(blank=True, null=True)),
                ('probe_at', models.DateTimeField(blank=True, help_text='When one job may be tried; while one is, when another takes its place.', null=True)),
                ('probe_job_id', models.UUIDField(blank=True, help_text='The job that is tried.', null=True)),
                ('firm', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='tenants.firm')),
            ],
            options={
                'verbose_name': 'circuit breaker',
                'indexes': [models.Index(condition=models.Q(('state__in', ['open', 'half_open'])), fields=['firm', 'job_type'], name='breaker_not_closed')],
                'constraints': [models.UniqueConstraint(fields=('firm', 'job_type'), name='breaker_once'), models.CheckConstraint(condition=models.Q(('state__in', [jobs.states.BreakerState['CLOSED'], jobs.states.BreakerState['OPEN'], jobs.states.BreakerState['HALF_OPEN']])), name='breaker_state_known')],
            },
        ),
        protect("jobs", "CircuitBreaker", engine=True),
    ]
