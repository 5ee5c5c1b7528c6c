"""Suggest-only and active mailboxes, their owners, and who else may read their mail."""

import django.db.models.deletion
import django.db.models.functions.datetime
import uuid_utils.compat
from django.conf import settings
from django.db import migrations, models

from tenants.rls import protect


class Migration(migrations.Migration):

    dependencies = [
        ('mail', '0003_accounts'),
        ('tenants', '0008_request_counts'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='ContentGrant',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('kind', models.CharField(choices=[('granted', 'Granted by the owner'), ('break_glass', 'Break-glass')], max_length=20)),
                ('reason', models.TextField(blank=True, default='')),
                ('granted_by', models.CharField(help_text='Who did it, as the audit log says.', max_length=200)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('expires_at', models.DateTimeField(blank=True, help_text='Empty means never.', null=True)),
            ],
            options={
                'verbose_name': 'content grant',
            },
        ),
        migrations.AddField(
            model_name='mailaccount',
            name='active_since',
            field=models.DateTimeField(blank=True, help_text='When it was made active: mail long before that is not labelled. Empty: all is.', null=True),
        ),
        migrations.AddField(
            model_name='mailaccount',
            name='aliases',
            field=models.JSONField(blank=True, default=list, help_text="The owner's other addresses, in lower case, as Gmail lists them."),
        ),
        migrations.AddField(
            model_name='mailaccount',
            name='delete_mail_at',
            field=models.DateTimeField(blank=True, help_text='When the mail of a disconnected mailbox is deleted.', null=True),
        ),
        # The mailboxes of before stay as they were; those of later start with another value.
        migrations.AddField(
            model_name='mailaccount',
            name='mode',
            field=models.CharField(choices=[('suggest', 'Suggest only'), ('active', 'Active')], db_default='active', default='active', help_text='Suggest only: decisions are stored and shown, and nothing is written to Gmail.', max_length=10),
        ),
        migrations.AlterField(
            model_name='mailaccount',
            name='mode',
            field=models.CharField(choices=[('suggest', 'Suggest only'), ('active', 'Active')], db_default='suggest', default='suggest', help_text='Suggest only: decisions are stored and shown, and nothing is written to Gmail.', max_length=10),
        ),
        migrations.AddField(
            model_name='mailaccount',
            name='owner',
            field=models.ForeignKey(blank=True, db_index=False, help_text='Who connected it: with those they grant it to, the only one to read its mail.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddField(
            model_name='mailaccount',
            name='paused_by',
            field=models.CharField(blank=True, choices=[('', 'Not paused'), ('switch', 'Paused by a person'), ('label', 'Paused by its Gmail label')], db_default='', default='', help_text='While it is paused nothing is written to Gmail; mail is read and judged as ever.', max_length=10),
        ),
        # The mailboxes of before stay as they were; those of later start with another value.
        migrations.AddField(
            model_name='mailaccount',
            name='shared',
            field=models.BooleanField(db_default=True, default=True, help_text="Every member of the firm may read its mail: a local mailbox, nobody's own."),
        ),
        migrations.AlterField(
            model_name='mailaccount',
            name='shared',
            field=models.BooleanField(db_default=False, default=False, help_text="Every member of the firm may read its mail: a local mailbox, nobody's own."),
        ),
        migrations.AddField(
            model_name='mailaccount',
            name='watch_expires_at',
            field=models.DateTimeField(blank=True, help_text='When Gmail stops sending notifications.', null=True),
        ),
        migrations.AlterField(
            model_name='mailevent',
            name='event_type',
            field=models.CharField(choices=[('connected', 'Connected'), ('disconnected', 'Disconnected'), ('mode_changed', 'Mode changed'), ('needs_reauth', 'Needs to be connected again'), ('history_expired', 'History expired'), ('ingested', 'Ingested'), ('classified', 'Classified'), ('action_completed', 'Action completed'), ('action_failed', 'Action failed')], max_length=30),
        ),
        migrations.AddConstraint(
            model_name='mailaccount',
            constraint=models.CheckConstraint(condition=models.Q(('mode__in', ['suggest', 'active']), ('paused_by__in', ['', 'switch', 'label'])), name='account_mode_known'),
        ),
        migrations.AddField(
            model_name='contentgrant',
            name='account',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='content_grants', to='mail.mailaccount'),
        ),
        migrations.AddField(
            model_name='contentgrant',
            name='firm',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.firm'),
        ),
        migrations.AddField(
            model_name='contentgrant',
            name='user',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AddIndex(
            model_name='contentgrant',
            index=models.Index(fields=['firm', 'user'], name='content_grant_of_user'),
        ),
        migrations.AddConstraint(
            model_name='contentgrant',
            constraint=models.UniqueConstraint(fields=('firm', 'account', 'user', 'kind'), name='content_grant_once'),
        ),
        migrations.AddConstraint(
            model_name='contentgrant',
            constraint=models.CheckConstraint(condition=models.Q(('kind__in', ['granted', 'break_glass'])), name='content_grant_kind_known'),
        ),
        protect("mail", "ContentGrant"),
    ]
