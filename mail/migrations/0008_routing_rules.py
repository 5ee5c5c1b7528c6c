"""Which mail goes to the pipeline and which to an agent."""

import django.db.models.deletion
import django.db.models.functions.datetime
import uuid_utils.compat
from django.db import migrations, models

from tenants.rls import protect


class Migration(migrations.Migration):

    dependencies = [
        ('mail', '0007_outbound'),
        ('tenants', '0008_request_counts'),
    ]

    operations = [
        migrations.CreateModel(
            name='RoutingRule',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=100)),
                ('position', models.PositiveIntegerField(default=100, help_text='Lower is asked first.')),
                ('match', models.JSONField(help_text='The conditions; see mail/rules/routing.py.')),
                ('route', models.CharField(choices=[('pipeline', 'Pipeline'), ('agent', 'Agent')], max_length=10)),
                ('profile', models.CharField(blank=True, default='', help_text='Of the agent.', max_length=100)),
                ('enabled', models.BooleanField(default=True)),
                ('disabled_reason', models.TextField(blank=True, default='', help_text='Why Mailroom switched it off; empty: it did not.')),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('account', models.ForeignKey(blank=True, db_index=False, help_text='Empty: every mailbox of the firm.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='routing_rules', to='mail.mailaccount')),
                ('firm', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.firm')),
            ],
            options={
                'verbose_name': 'routing rule',
                'indexes': [models.Index(condition=models.Q(('enabled', True)), fields=['firm', 'position'], name='routing_rule_enabled')],
                'constraints': [models.UniqueConstraint(fields=('firm', 'name'), name='routing_rule_name_once'), models.CheckConstraint(condition=models.Q(models.Q(('profile', ''), ('route', 'pipeline')), models.Q(('route', 'agent'), models.Q(('profile', ''), _negated=True)), _connector='OR'), name='routing_rule_profile_of_agent')],
            },
        ),
        protect("mail", "RoutingRule"),
    ]
