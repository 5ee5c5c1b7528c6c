"""Calls of language models, and what people tell the models in their own words."""

import django.db.models.deletion
import django.db.models.functions.datetime
import uuid_utils.compat
from django.db import migrations, models

from tenants.rls import protect


class Migration(migrations.Migration):

    dependencies = [
        ('mail', '0010_action_indexes'),
        ('tenants', '0008_request_counts'),
    ]

    operations = [
        migrations.AlterField(
            model_name='decision',
            name='source',
            field=models.CharField(choices=[('offline', 'Offline classifier'), ('rule', 'Rule'), ('model', 'Language model')], max_length=10),
        ),
        migrations.AlterField(
            model_name='rule',
            name='account',
            field=models.ForeignKey(blank=True, db_index=False, help_text='Empty: every mailbox of the firm.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='%(class)ss', to='mail.mailaccount'),
        ),
        migrations.CreateModel(
            name='Direction',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('scope', models.CharField(choices=[('global', 'All mail of the firm'), ('account', 'All mail of one mailbox'), ('domain', 'Mail from one domain'), ('sender', 'Mail from one sender')], default='global', max_length=10)),
                ('scope_ref', models.CharField(blank=True, default='', help_text="The domain or the sender's address, in lower case.", max_length=320)),
                ('kind', models.CharField(choices=[('direction', 'Direction'), ('llm_rule', 'Rule for the model')], default='direction', max_length=10)),
                ('text', models.CharField(max_length=2000)),
                ('enabled', models.BooleanField(default=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('changed_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('account', models.ForeignKey(blank=True, db_index=False, help_text='Empty: every mailbox of the firm.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='%(class)ss', to='mail.mailaccount')),
                ('firm', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.firm')),
            ],
            options={
                'indexes': [models.Index(condition=models.Q(('enabled', True)), fields=['firm', 'id'], name='direction_enabled')],
                'constraints': [models.CheckConstraint(condition=models.Q(models.Q(('account', None), ('scope', 'global'), ('scope_ref', '')), models.Q(('account__isnull', False), ('scope', 'account'), ('scope_ref', '')), models.Q(('scope__in', ['domain', 'sender']), models.Q(('scope_ref', ''), _negated=True)), _connector='OR'), name='direction_scope_named'), models.CheckConstraint(condition=models.Q(('kind__in', ['direction', 'llm_rule'])), name='direction_kind_known')],
            },
        ),
        migrations.CreateModel(
            name='LLMCall',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('job_id', models.UUIDField(blank=True, help_text='The job that asked.', null=True)),
                ('call_type', models.CharField(choices=[('classify', 'Classify'), ('draft', 'Draft'), ('rework', 'Rework'), ('context', 'Find context'), ('agent', 'Agent')], max_length=10)),
                ('provider', models.CharField(max_length=20)),
                ('model', models.CharField(max_length=100)),
                ('prompt_tokens', models.PositiveIntegerField(default=0)),
                ('completion_tokens', models.PositiveIntegerField(default=0)),
                ('cost_microdollars', models.PositiveBigIntegerField(default=0, help_text='By LLM_PRICES; 0 where they are not set.')),
                ('latency_ms', models.PositiveIntegerField(default=0)),
                ('error', models.CharField(blank=True, default='', help_text='Its code; empty: it was answered.', max_length=20)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('account', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='llm_calls', to='mail.mailaccount')),
                ('firm', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.firm')),
                ('message', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='llm_calls', to='mail.message')),
            ],
            options={
                'verbose_name': 'model call',
                'indexes': [models.Index(fields=['firm', 'created_at'], name='llm_call_recent'), models.Index(fields=['firm', 'message'], name='llm_call_of_message')],
            },
        ),
        protect("mail", "Direction", "LLMCall"),
    ]
