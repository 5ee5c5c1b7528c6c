"""Drafts, and how a firm answers."""

import django.db.models.deletion
import django.db.models.functions.datetime
import uuid_utils.compat
from django.db import migrations, models

from tenants.rls import protect


class Migration(migrations.Migration):

    dependencies = [
        ('mail', '0014_agents'),
        ('tenants', '0010_audit_erasure'),
    ]

    operations = [
        migrations.AlterField(
            model_name='decision',
            name='source',
            field=models.CharField(choices=[('offline', 'Offline classifier'), ('rule', 'Rule'), ('model', 'Language model'), ('person', 'The person')], max_length=10),
        ),
        migrations.AlterField(
            model_name='mailevent',
            name='event_type',
            field=models.CharField(choices=[('connected', 'Connected'), ('disconnected', 'Disconnected'), ('mode_changed', 'Mode changed'), ('needs_reauth', 'Needs to be connected again'), ('history_expired', 'History expired'), ('watch_failed', 'Watch not renewed'), ('label_deleted', 'Label deleted in Gmail'), ('routed', 'Routed'), ('ingested', 'Ingested'), ('agent_finished', 'Agent finished'), ('agent_escalated', 'Agent asks for a person'), ('classified', 'Classified'), ('action_completed', 'Action completed'), ('action_failed', 'Action failed'), ('sent', 'Sent'), ('send_failed', 'Not sent'), ('send_unknown', 'Perhaps sent'), ('approval_asked', 'Approval asked for'), ('approved', 'Approved'), ('rejected', 'Rejected'), ('approval_expired', 'Approval expired'), ('undo_requested', 'Undo requested'), ('action_undone', 'Action undone'), ('unsnoozed', 'Back from snooze'), ('draft_created', 'Draft created'), ('draft_reworked', 'Draft reworked'), ('draft_kept', 'Edited draft left alone'), ('draft_withdrawn', 'Draft withdrawn'), ('draft_discarded', 'Draft discarded'), ('draft_refused', 'Not drafted'), ('rework_limit_reached', 'Rework limit reached'), ('sent_detected', 'Draft sent by the person'), ('archived', 'Marked done'), ('waiting_retriaged', 'Answer came: judged again')], max_length=30),
        ),
        migrations.CreateModel(
            name='Contact',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('changed_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('pattern', models.CharField(help_text='An address or a domain, in lower case; * stands for anything.', max_length=320)),
                ('style', models.CharField(blank=True, default='', help_text='Empty: as ever.', max_length=50)),
                ('language', models.CharField(blank=True, default='', help_text='Empty: as ever.', max_length=10)),
                ('blocked', models.BooleanField(default=False, help_text='On the blacklist: its mail is for information only.')),
                ('account', models.ForeignKey(blank=True, db_index=False, help_text='Empty: every mailbox of the firm.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='%(class)ss', to='mail.mailaccount')),
                ('firm', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.firm')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('firm', 'account', 'pattern'), name='contact_once'), models.UniqueConstraint(condition=models.Q(('account', None)), fields=('firm', 'pattern'), name='contact_once_of_firm'), models.CheckConstraint(condition=models.Q(('pattern', ''), _negated=True), name='contact_pattern_named')],
            },
        ),
        migrations.CreateModel(
            name='Draft',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('status', models.CharField(choices=[('writing', 'Being written to Gmail'), ('ready', 'In Gmail'), ('sent', 'Sent'), ('discarded', 'Discarded by the person'), ('replaced', 'Replaced by its rework'), ('withdrawn', 'Withdrawn by Mailroom'), ('kept', 'Left to the person, who edited it'), ('canceled', 'Never written to Gmail')], default='writing', max_length=10)),
                ('origin', models.CharField(choices=[('automatic', 'A decision'), ('manual', 'The person'), ('rework', 'Rework')], max_length=10)),
                ('source', models.CharField(choices=[('model', 'Language model'), ('template', 'Reply template'), ('error', 'Nobody: the model failed')], max_length=10)),
                ('template_name', models.CharField(blank=True, default='', help_text='Of the reply template, if one wrote it.', max_length=100)),
                ('style', models.CharField(blank=True, default='', max_length=50)),
                ('language', models.CharField(blank=True, default='', max_length=10)),
                ('rework_count', models.PositiveSmallIntegerField(default=0)),
                ('instruction', models.TextField(blank=True, default='', help_text='What the person asked of this version.')),
                ('next_instruction', models.TextField(blank=True, default='', help_text='What the person asks of the next one, outside Gmail.')),
                ('related', models.PositiveSmallIntegerField(default=0, help_text='How many related conversations the model was shown.')),
                ('to', models.JSONField(default=list, help_text='[{name, address}]')),
                ('subject', models.TextField(blank=True, default='')),
                ('text', models.TextField(help_text='As it was written to Gmail, below the marker.')),
                ('content_hash', models.CharField(help_text='SHA-256 of what Gmail holds as long as nobody edits it.', max_length=64)),
                ('rfc822_id', models.TextField(help_text='Its Message-ID, made from its id.')),
                ('gmail_draft_id', models.CharField(blank=True, default='', max_length=64)),
                ('gmail_message_id', models.CharField(blank=True, default='', help_text="Of the draft's message when it was last seen; each edit gives it another.", max_length=64)),
                ('edited', models.BooleanField(default=False, help_text='The person has changed it since.')),
                ('job_id', models.UUIDField(blank=True, help_text='The job that made it.', null=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('written_at', models.DateTimeField(blank=True, help_text='When Gmail had it.', null=True)),
                ('ended_at', models.DateTimeField(blank=True, null=True)),
                ('account', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='drafts', to='mail.mailaccount')),
                ('firm', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.firm')),
                ('llm_call', models.ForeignKey(blank=True, db_index=False, help_text='The model call that wrote it.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='mail.llmcall')),
                ('message', models.ForeignKey(db_index=False, help_text='What it answers.', on_delete=django.db.models.deletion.CASCADE, related_name='drafts', to='mail.message')),
                ('replaces', models.ForeignKey(blank=True, db_index=False, help_text='The version that this one reworks.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='mail.draft')),
                ('thread', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='drafts', to='mail.mailthread')),
            ],
            options={
                'indexes': [models.Index(fields=['firm', 'thread', 'id'], name='draft_of_thread'), models.Index(fields=['firm', 'message', 'created_at'], name='draft_of_message'), models.Index(fields=['firm', 'status', 'id'], name='draft_state'), models.Index(fields=['firm', 'id'], name='draft_newest'), models.Index(condition=models.Q(('status', 'ready')), fields=['firm', 'account', 'gmail_message_id'], name='draft_in_gmail')],
                'constraints': [models.CheckConstraint(condition=models.Q(('origin__in', ['automatic', 'manual', 'rework']), ('source__in', ['model', 'template', 'error']), ('status__in', ['writing', 'ready', 'sent', 'discarded', 'replaced', 'withdrawn', 'kept', 'canceled'])), name='draft_state_known'), models.UniqueConstraint(condition=models.Q(('status', 'ready')), fields=('firm', 'thread'), name='draft_ready_once')],
            },
        ),
        migrations.CreateModel(
            name='ReplySettings',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('changed_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('enabled', models.BooleanField(default=True, help_text='Off: nothing is drafted by itself.')),
                ('gather_context', models.BooleanField(default=True, help_text='Show the model earlier mail with the same person.')),
                ('default_style', models.CharField(default='business', max_length=50)),
                ('default_language', models.CharField(default='en', help_text='Where that of the message cannot be told.', max_length=10)),
                ('sign_off_name', models.CharField(blank=True, default='', help_text="Empty: the mailbox's name.", max_length=200)),
                ('account', models.ForeignKey(blank=True, db_index=False, help_text='Empty: every mailbox of the firm.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='%(class)ss', to='mail.mailaccount')),
                ('firm', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.firm')),
            ],
            options={
                'verbose_name': 'reply settings',
                'verbose_name_plural': 'reply settings',
                'constraints': [models.UniqueConstraint(fields=('firm', 'account'), name='reply_settings_once'), models.UniqueConstraint(condition=models.Q(('account', None)), fields=('firm',), name='reply_settings_once_of_firm')],
            },
        ),
        migrations.CreateModel(
            name='ReplyStyle',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('changed_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('name', models.CharField(max_length=50)),
                ('rules', models.JSONField(blank=True, default=list, help_text='What the writer has to keep to, a sentence each.')),
                ('sign_off', models.CharField(blank=True, default='', max_length=500)),
                ('language', models.CharField(default='auto', help_text='A code such as en, or auto: that of the message.', max_length=10)),
                ('examples', models.JSONField(blank=True, default=list, help_text='[{context, input, draft}]')),
                ('account', models.ForeignKey(blank=True, db_index=False, help_text='Empty: every mailbox of the firm.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='%(class)ss', to='mail.mailaccount')),
                ('firm', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.firm')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('firm', 'account', 'name'), name='reply_style_once'), models.UniqueConstraint(condition=models.Q(('account', None)), fields=('firm', 'name'), name='reply_style_once_of_firm')],
            },
        ),
        migrations.CreateModel(
            name='ReplyTemplate',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('changed_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('name', models.CharField(max_length=100)),
                ('style', models.CharField(blank=True, default='', help_text='Empty: any.', max_length=50)),
                ('language', models.CharField(blank=True, default='', help_text='Empty: any.', max_length=10)),
                ('text', models.TextField(help_text='May use {name}, {subject}, {sign_off} and {owner}.')),
                ('enabled', models.BooleanField(default=True)),
                ('account', models.ForeignKey(blank=True, db_index=False, help_text='Empty: every mailbox of the firm.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='%(class)ss', to='mail.mailaccount')),
                ('firm', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.firm')),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('firm', 'account', 'name'), name='reply_template_once'), models.UniqueConstraint(condition=models.Q(('account', None)), fields=('firm', 'name'), name='reply_template_once_of_firm')],
            },
        ),
        protect("mail", "Draft", "ReplySettings", "ReplyStyle", "ReplyTemplate", "Contact"),
    ]
