"""Questions that dangerous actions and outbound messages wait for."""

import django.db.models.deletion
import django.db.models.functions.datetime
import uuid_utils.compat
from django.db import migrations, models

from tenants.rls import protect


class Migration(migrations.Migration):

    dependencies = [
        ('mail', '0011_language_models'),
        ('tenants', '0008_request_counts'),
    ]

    operations = [
        migrations.CreateModel(
            name='Approval',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('reasons', models.JSONField(blank=True, default=list, help_text='The checks of mail/rules/safety.py that asked.')),
                ('content_hash', models.CharField(help_text='SHA-256 of exactly what is asked.', max_length=64)),
                ('status', models.CharField(choices=[('pending', 'Waiting'), ('approved', 'Approved'), ('rejected', 'Rejected'), ('expired', 'Expired'), ('canceled', 'Canceled')], default='pending', max_length=10)),
                ('expires_at', models.DateTimeField()),
                ('decided_at', models.DateTimeField(blank=True, null=True)),
                ('decided_by', models.CharField(blank=True, default='', max_length=200)),
                ('decided_via', models.CharField(blank=True, default='', max_length=20)),
                ('notified_at', models.DateTimeField(blank=True, null=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('account', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='approvals', to='mail.mailaccount')),
                ('action', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='approvals', to='mail.action')),
                ('firm', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.firm')),
                ('message', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='approvals', to='mail.message')),
                ('outbound', models.ForeignKey(blank=True, db_index=False, null=True, on_delete=django.db.models.deletion.CASCADE, related_name='approvals', to='mail.outboundmessage')),
            ],
            options={
                'indexes': [models.Index(fields=['firm', 'status', 'id'], name='approval_state'), models.Index(fields=['firm', 'id'], name='approval_newest'), models.Index(fields=['firm', 'message', 'created_at'], name='approval_of_message'), models.Index(condition=models.Q(('status', 'pending')), fields=['expires_at'], name='approval_expiry')],
                'constraints': [models.CheckConstraint(condition=models.Q(('status__in', ['pending', 'approved', 'rejected', 'expired', 'canceled'])), name='approval_status_known'), models.CheckConstraint(condition=models.Q(('action__isnull', False), ('outbound__isnull', False), _connector='OR'), name='approval_of_something')],
            },
        ),
        protect("mail", "Approval"),
    ]
