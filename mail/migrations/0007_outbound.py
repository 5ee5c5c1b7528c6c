"""Messages on their way out; under which addresses a mailbox writes, and how long it waits."""

import django.db.models.deletion
import django.db.models.functions.datetime
import uuid_utils.compat
from django.db import migrations, models

from tenants.rls import protect


class Migration(migrations.Migration):

    dependencies = [
        ('mail', '0006_rules'),
        ('tenants', '0008_request_counts'),
    ]

    operations = [
        migrations.AddField(
            model_name='mailaccount',
            name='identities',
            field=models.JSONField(blank=True, default=list, help_text='[{address, name, signature}]: whom the owner writes as, the default first.'),
        ),
        migrations.AddField(
            model_name='mailaccount',
            name='send_delay_seconds',
            field=models.PositiveIntegerField(db_default=10, default=10, help_text='A message waits so long before it is sent: until then it can be canceled.'),
        ),
        migrations.CreateModel(
            name='OutboundMessage',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('reply', 'Reply'), ('forward', 'Forward'), ('new', 'New message')], max_length=10)),
                ('automatic', models.BooleanField(default=False, help_text='Nobody wrote it: loops are guarded against.')),
                ('auto_reply_to', models.CharField(blank=True, default='', help_text='Whom an automatic reply answers, in lower case; empty for all others.', max_length=320)),
                ('sender', models.JSONField(help_text='{name, address}')),
                ('to', models.JSONField(default=list, help_text='[{name, address}]')),
                ('cc', models.JSONField(blank=True, default=list, help_text='[{name, address}]')),
                ('bcc', models.JSONField(blank=True, default=list, help_text='[{name, address}]')),
                ('subject', models.TextField(blank=True, default='')),
                ('text', models.TextField(blank=True, default='')),
                ('html', models.TextField(blank=True, default='')),
                ('attachments', models.JSONField(blank=True, default=list, help_text='[{message_id, part_id, filename, mime_type}] by our ids, fetched when it is sent; an empty part_id is the whole message.')),
                ('rfc822_id', models.TextField(blank=True, default='', help_text='Its Message-ID, made from its id.')),
                ('in_reply_to', models.TextField(blank=True, default='')),
                ('references', models.JSONField(blank=True, default=list)),
                ('gmail_thread_id', models.CharField(blank=True, default='', max_length=64)),
                ('content_hash', models.CharField(help_text='SHA-256 of everything it says.', max_length=64)),
                ('status', models.CharField(choices=[('approved_pending', 'Waiting for approval'), ('queued', 'Queued'), ('sending', 'Sending'), ('sent', 'Sent'), ('failed', 'Failed'), ('canceled', 'Canceled'), ('rejected', 'Rejected'), ('unknown', 'Needs a look')], default='queued', max_length=20)),
                ('error', models.TextField(blank=True, default='')),
                ('releases', models.PositiveSmallIntegerField(default=0, help_text='How often it was let go: each has a job of its own.')),
                ('send_after', models.DateTimeField(blank=True, help_text='It can be canceled until then, without a trace in Gmail.', null=True)),
                ('database_id', models.CharField(blank=True, default='', help_text='The database it was let go in; in a restored one a person has to say yes again.', max_length=100)),
                ('job_id', models.UUIDField(blank=True, help_text='The job that sends it.', null=True)),
                ('gmail_draft_id', models.CharField(blank=True, default='', help_text='The draft that Gmail sends, and sends once.', max_length=64)),
                ('history_id', models.BigIntegerField(blank=True, help_text="The mailbox's history id before it was sent.", null=True)),
                ('missing_since', models.DateTimeField(blank=True, help_text='Since when its draft is gone and nothing sent was found.', null=True)),
                ('gmail_message_id', models.CharField(blank=True, default='', max_length=64)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('started_at', models.DateTimeField(blank=True, null=True)),
                ('sent_at', models.DateTimeField(blank=True, null=True)),
                ('account', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='outbound', to='mail.mailaccount')),
                ('action', models.ForeignKey(blank=True, db_index=False, help_text='The action that sends it; completed when it is sent.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='outbound', to='mail.action')),
                ('firm', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.firm')),
                ('message', models.ForeignKey(blank=True, db_index=False, help_text='What it answers or forwards.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='outbound', to='mail.message')),
            ],
            options={
                'verbose_name': 'outbound message',
                'indexes': [models.Index(fields=['firm', 'message', 'created_at'], name='outbound_of_message'), models.Index(fields=['firm', 'status', 'id'], name='outbound_state'), models.Index(fields=['firm', 'id'], name='outbound_newest'), models.Index(condition=models.Q(('auto_reply_to', ''), _negated=True), fields=['firm', 'account', 'auto_reply_to', 'created_at'], name='outbound_auto_replies')],
                'constraints': [models.UniqueConstraint(condition=models.Q(('action__isnull', False)), fields=('firm', 'action'), name='outbound_of_action_once'), models.CheckConstraint(condition=models.Q(('kind__in', ['reply', 'forward', 'new']), ('status__in', ['approved_pending', 'queued', 'sending', 'sent', 'failed', 'canceled', 'rejected', 'unknown'])), name='outbound_state_known')],
            },
        ),
        migrations.AlterField(
            model_name='mailevent',
            name='event_type',
            field=models.CharField(choices=[('connected', 'Connected'), ('disconnected', 'Disconnected'), ('mode_changed', 'Mode changed'), ('needs_reauth', 'Needs to be connected again'), ('history_expired', 'History expired'), ('watch_failed', 'Watch not renewed'), ('label_deleted', 'Label deleted in Gmail'), ('routed', 'Routed'), ('ingested', 'Ingested'), ('classified', 'Classified'), ('action_completed', 'Action completed'), ('action_failed', 'Action failed'), ('sent', 'Sent'), ('send_failed', 'Not sent'), ('send_unknown', 'Perhaps sent'), ('approval_asked', 'Approval asked for'), ('approved', 'Approved'), ('rejected', 'Rejected'), ('approval_expired', 'Approval expired')], max_length=30),
        ),
        protect("mail", "OutboundMessage"),
    ]
