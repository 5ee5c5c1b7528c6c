"""Agents: their profiles, and what each did with each message."""

import django.db.models.deletion
import django.db.models.functions.datetime
import uuid_utils.compat
from django.db import migrations, models

from tenants.rls import protect


class Migration(migrations.Migration):

    dependencies = [
        ('mail', '0013_data_requests'),
        ('tenants', '0009_audit_outlives_firms'),
    ]

    operations = [
        migrations.AlterField(
            model_name='mailevent',
            name='event_type',
            field=models.CharField(choices=[('connected', 'Connected'), ('disconnected', 'Disconnected'), ('mode_changed', 'Mode changed'), ('needs_reauth', 'Needs to be connected again'), ('history_expired', 'History expired'), ('watch_failed', 'Watch not renewed'), ('label_deleted', 'Label deleted in Gmail'), ('routed', 'Routed'), ('ingested', 'Ingested'), ('agent_finished', 'Agent finished'), ('agent_escalated', 'Agent asks for a person'), ('classified', 'Classified'), ('action_completed', 'Action completed'), ('action_failed', 'Action failed'), ('sent', 'Sent'), ('send_failed', 'Not sent'), ('send_unknown', 'Perhaps sent'), ('approval_asked', 'Approval asked for'), ('approved', 'Approved'), ('rejected', 'Rejected'), ('approval_expired', 'Approval expired'), ('undo_requested', 'Undo requested'), ('action_undone', 'Action undone'), ('unsnoozed', 'Back from snooze')], max_length=30),
        ),
        migrations.CreateModel(
            name='AgentProfile',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(help_text='Routing rules name it.', max_length=100)),
                ('instructions', models.TextField(help_text='What the agent is told before it reads a message.')),
                ('model', models.CharField(blank=True, default='', help_text='Empty: that of LLM_MODEL.', max_length=100)),
                ('max_tokens', models.PositiveIntegerField(default=4096, help_text='Of each reply.')),
                ('max_iterations', models.PositiveSmallIntegerField(default=10, help_text='How often the model is asked at most for one message.')),
                ('tools', models.JSONField(blank=True, default=list, help_text='The names of the tools it may use; no other one runs.')),
                ('recipients', models.JSONField(blank=True, default=list, help_text='Addresses, or *@ and a domain, to which it may ask to write besides whoever wrote the message.')),
                ('preprocessor', models.CharField(choices=[('plain', 'As it is'), ('crisp', 'Forwarded by Crisp'), ('helpdesk', 'Forwarded by a helpdesk or a contact form')], default='plain', max_length=20)),
                ('enabled', models.BooleanField(default=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('changed_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('firm', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.firm')),
            ],
            options={
                'verbose_name': 'agent profile',
            },
        ),
        migrations.CreateModel(
            name='AgentRun',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('profile_name', models.CharField(max_length=100)),
                ('status', models.CharField(choices=[('running', 'Running'), ('completed', 'Completed'), ('max_iterations', 'Stopped: too many iterations'), ('error', 'Failed')], default='running', max_length=20)),
                ('steps', models.JSONField(blank=True, default=list, help_text='[{text, calls: [{call_id, tool, arguments, result}]}], an entry a reply.')),
                ('final_message', models.TextField(blank=True, default='', help_text='What it said at last.')),
                ('error', models.CharField(blank=True, default='', max_length=500)),
                ('approvals_asked', models.PositiveSmallIntegerField(default=0)),
                ('job_id', models.UUIDField(help_text='The job that runs it.')),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('completed_at', models.DateTimeField(blank=True, null=True)),
                ('account', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='agent_runs', to='mail.mailaccount')),
                ('firm', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.firm')),
                ('message', models.ForeignKey(blank=True, db_index=False, help_text='Empty: it was started by a schedule.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='agent_runs', to='mail.message')),
                ('profile', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='runs', to='mail.agentprofile')),
            ],
            options={
                'verbose_name': 'agent run',
            },
        ),
        migrations.AddConstraint(
            model_name='agentprofile',
            constraint=models.UniqueConstraint(fields=('firm', 'name'), name='agent_profile_name_once'),
        ),
        migrations.AddIndex(
            model_name='agentrun',
            index=models.Index(fields=['firm', 'id'], name='agent_run_newest'),
        ),
        migrations.AddIndex(
            model_name='agentrun',
            index=models.Index(fields=['firm', 'message', 'created_at'], name='agent_run_of_message'),
        ),
        migrations.AddConstraint(
            model_name='agentrun',
            constraint=models.UniqueConstraint(fields=('firm', 'job_id'), name='agent_run_of_job_once'),
        ),
        migrations.AddConstraint(
            model_name='agentrun',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ['running', 'completed', 'max_iterations', 'error'])), name='agent_run_status_known'),
        ),
        protect("mail", "AgentProfile", "AgentRun"),
    ]
