"""Which notifications were taken, failed watches, and what labels are for."""

import django.db.models.deletion
import django.db.models.functions.datetime
import uuid_utils.compat
from django.conf import settings
from django.db import migrations, models

from tenants.rls import protect


class Migration(migrations.Migration):

    dependencies = [
        ('mail', '0004_mailbox_modes'),
        ('tenants', '0008_request_counts'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='PushReceipt',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('message_id', models.CharField(help_text="Pub/Sub's messageId.", max_length=64)),
                ('history_id', models.BigIntegerField()),
                ('received_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
            ],
            options={
                'verbose_name': 'push receipt',
            },
        ),
        migrations.AddField(
            model_name='mailaccount',
            name='watch_error',
            field=models.CharField(blank=True, db_default='', default='', help_text='Why the watch could not be renewed; empty once it is.', max_length=500),
        ),
        migrations.AddField(
            model_name='maillabel',
            name='available_to_classifier',
            field=models.BooleanField(db_default=True, default=True, help_text='The classifier may choose it.'),
        ),
        migrations.AddField(
            model_name='maillabel',
            name='description',
            field=models.TextField(blank=True, db_default='', default='', help_text='What the label is for, to the classifier.'),
        ),
        migrations.AlterField(
            model_name='mailevent',
            name='event_type',
            field=models.CharField(choices=[('connected', 'Connected'), ('disconnected', 'Disconnected'), ('mode_changed', 'Mode changed'), ('needs_reauth', 'Needs to be connected again'), ('history_expired', 'History expired'), ('watch_failed', 'Watch not renewed'), ('label_deleted', 'Label deleted in Gmail'), ('routed', 'Routed'), ('ingested', 'Ingested'), ('classified', 'Classified'), ('action_completed', 'Action completed'), ('action_failed', 'Action failed')], max_length=30),
        ),
        migrations.AddIndex(
            model_name='mailaccount',
            index=models.Index(fields=['address'], name='account_address'),
        ),
        migrations.AddField(
            model_name='pushreceipt',
            name='account',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='push_receipts', to='mail.mailaccount'),
        ),
        migrations.AddField(
            model_name='pushreceipt',
            name='firm',
            field=models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.firm'),
        ),
        migrations.AddConstraint(
            model_name='pushreceipt',
            constraint=models.UniqueConstraint(fields=('firm', 'account', 'message_id'), name='push_receipt_once'),
        ),
        protect("mail", "PushReceipt"),
    ]
