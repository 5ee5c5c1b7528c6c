"""Permission to use Gmail, encrypted; whether a mailbox is connected, and its last error."""

import django.db.models.deletion
import django.db.models.functions.datetime
import tenants.encryption
import uuid_utils.compat
from django.db import migrations, models

from tenants.rls import protect


class Migration(migrations.Migration):

    dependencies = [
        ('mail', '0002_row_level_security'),
        ('tenants', '0008_request_counts'),
    ]

    operations = [
        migrations.CreateModel(
            name='MailCredential',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('refresh_token', tenants.encryption.EncryptedTextField()),
                ('access_token', tenants.encryption.EncryptedTextField(blank=True, default='')),
                ('expires_at', models.DateTimeField(blank=True, help_text='When Google stops accepting the access token.', null=True)),
                ('scopes', models.JSONField(default=list, help_text='What Google said it granted.')),
                ('connected_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('refreshed_at', models.DateTimeField(blank=True, null=True)),
            ],
            options={
                'verbose_name': 'credential',
            },
        ),
        migrations.AddField(
            model_name='mailaccount',
            name='connection',
            field=models.CharField(choices=[('connected', 'Connected'), ('needs_reauth', 'Needs to be connected again'), ('disconnected', 'Disconnected')], db_default='connected', default='connected', help_text='Only a connected mailbox is synced; the jobs of the others wait.', max_length=20),
        ),
        migrations.AddField(
            model_name='mailaccount',
            name='held_until',
            field=models.DateTimeField(blank=True, help_text='Gmail asked for fewer requests: no job of the mailbox calls it before this.', null=True),
        ),
        migrations.AddField(
            model_name='mailaccount',
            name='last_error',
            field=models.CharField(blank=True, db_default='', default='', max_length=500),
        ),
        migrations.AddField(
            model_name='mailaccount',
            name='last_error_at',
            field=models.DateTimeField(blank=True, null=True),
        ),
        migrations.AlterField(
            model_name='mailevent',
            name='event_type',
            field=models.CharField(choices=[('needs_reauth', 'Needs to be connected again'), ('history_expired', 'History expired'), ('ingested', 'Ingested'), ('classified', 'Classified'), ('action_completed', 'Action completed'), ('action_failed', 'Action failed')], max_length=30),
        ),
        migrations.AddConstraint(
            model_name='mailaccount',
            constraint=models.CheckConstraint(condition=models.Q(('connection__in', ['connected', 'needs_reauth', 'disconnected'])), name='account_connection_known'),
        ),
        migrations.AddField(
            model_name='mailcredential',
            name='account',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='credentials', to='mail.mailaccount'),
        ),
        migrations.AddField(
            model_name='mailcredential',
            name='firm',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.firm'),
        ),
        migrations.AddConstraint(
            model_name='mailcredential',
            constraint=models.UniqueConstraint(fields=('firm', 'account'), name='credential_once'),
        ),
        protect("mail", "MailCredential"),
    ]
