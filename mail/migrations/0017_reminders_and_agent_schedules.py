"""Reminders with the preferences of people, and timetables by which agents run."""

import django.db.models.deletion
import django.db.models.functions.datetime
import tenants.encryption
import uuid_utils.compat
from django.conf import settings
from django.db import migrations, models

from tenants.rls import protect


class Migration(migrations.Migration):

    dependencies = [
        ('mail', '0016_message_index'),
        ('tenants', '0010_audit_erasure'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='AgentSchedule',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('cron', models.CharField(blank=True, help_text='Minute, hour, day, month, weekday; either this or an interval.', max_length=100, null=True)),
                ('interval_seconds', models.PositiveBigIntegerField(blank=True, help_text='Counted from date to date.', null=True)),
                ('time_zone', models.CharField(default='UTC', help_text='The zone whose clock the cron expression names.', max_length=50)),
                ('due_at', models.DateTimeField(blank=True, help_text='The next date that is not in the queue yet; empty: none.', null=True)),
                ('queued_at', models.DateTimeField(blank=True, editable=False, help_text='The last date that was put into the queue.', null=True)),
                ('name', models.CharField(max_length=100)),
                ('prompt', models.TextField(help_text='What the agent is asked each time.')),
                ('enabled', models.BooleanField(default=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('changed_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('account', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='agent_schedules', to='mail.mailaccount')),
                ('firm', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.firm')),
                ('profile', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='schedules', to='mail.agentprofile')),
                ('user', models.ForeignKey(blank=True, db_index=False, help_text='On whose behalf it runs; while they are inactive it does not. Empty: the firm.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'agent schedule',
                'indexes': [models.Index(condition=models.Q(('due_at__isnull', False), ('enabled', True)), fields=['due_at'], name='agent_schedule_due')],
                'constraints': [models.UniqueConstraint(fields=('firm', 'name'), name='agent_schedule_name_once'), models.CheckConstraint(condition=models.Q(('cron__isnull', True), ('interval_seconds__isnull', True), _connector='OR'), name='agent_schedule_one_timetable')],
            },
        ),
        migrations.CreateModel(
            name='NotificationPreference',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('time_zone', models.CharField(default='UTC', max_length=50)),
                ('quiet_from', models.TimeField(blank=True, help_text='From this time of day on nothing is delivered.', null=True)),
                ('quiet_until', models.TimeField(blank=True, help_text='At this time of day what came meanwhile is delivered.', null=True)),
                ('email', models.BooleanField(default=True, help_text='To the address of the account.')),
                ('discord_webhook', tenants.encryption.EncryptedTextField(blank=True, default='', help_text="A Discord webhook's URL, encrypted; empty: none.")),
                ('changed_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('firm', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.firm')),
                ('user', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'notification preference',
                'constraints': [models.UniqueConstraint(fields=('firm', 'user'), name='notification_preference_once'), models.CheckConstraint(condition=models.Q(models.Q(('quiet_from', None), ('quiet_until', None)), models.Q(('quiet_from__isnull', False), ('quiet_until__isnull', False)), _connector='OR'), name='quiet_hours_whole')],
            },
        ),
        migrations.CreateModel(
            name='Reminder',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('cron', models.CharField(blank=True, help_text='Minute, hour, day, month, weekday; either this or an interval.', max_length=100, null=True)),
                ('interval_seconds', models.PositiveBigIntegerField(blank=True, help_text='Counted from date to date.', null=True)),
                ('time_zone', models.CharField(default='UTC', help_text='The zone whose clock the cron expression names.', max_length=50)),
                ('due_at', models.DateTimeField(blank=True, help_text='The next date that is not in the queue yet; empty: none.', null=True)),
                ('queued_at', models.DateTimeField(blank=True, editable=False, help_text='The last date that was put into the queue.', null=True)),
                ('title', models.CharField(max_length=200)),
                ('body', models.TextField(blank=True, default='')),
                ('status', models.CharField(choices=[('active', 'Active'), ('delivered', 'Delivered'), ('canceled', 'Canceled')], default='active', max_length=10)),
                ('planned_at', models.DateTimeField(editable=False, help_text='When its dates were set: earlier ones are not delivered any more.')),
                ('delivered_at', models.DateTimeField(blank=True, editable=False, help_text='When it was last delivered.', null=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('changed_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('firm', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.firm')),
                ('user', models.ForeignKey(db_index=False, help_text='Who is reminded, and the only one to read it.', on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'verbose_name': 'reminder',
                'indexes': [models.Index(condition=models.Q(('due_at__isnull', False)), fields=['due_at'], name='reminder_due'), models.Index(fields=['firm', 'user', 'id'], name='reminder_of_user')],
                'constraints': [models.CheckConstraint(condition=models.Q(('status__in', ['active', 'delivered', 'canceled'])), name='reminder_status_known'), models.CheckConstraint(condition=models.Q(('cron__isnull', True), ('interval_seconds__isnull', True), _connector='OR'), name='reminder_one_timetable')],
            },
        ),
        protect("mail", "AgentSchedule", "NotificationPreference", "Reminder"),
    ]
