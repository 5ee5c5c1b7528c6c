"""Rules that decide about mail, and which rule asked for an action."""

import django.db.models.deletion
import django.db.models.functions.datetime
import uuid_utils.compat
from django.db import migrations, models

from tenants.rls import protect


class Migration(migrations.Migration):

    dependencies = [
        ('mail', '0005_push_and_watches'),
        ('tenants', '0008_request_counts'),
    ]

    operations = [
        migrations.AlterField(
            model_name='decision',
            name='explanations',
            field=models.JSONField(default=dict, help_text='{salient_features, language, style, automated, rules}'),
        ),
        migrations.AlterField(
            model_name='decision',
            name='source',
            field=models.CharField(choices=[('offline', 'Offline classifier'), ('rule', 'Rule')], max_length=10),
        ),
        migrations.CreateModel(
            name='Rule',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('name', models.CharField(max_length=100)),
                ('scope', models.CharField(choices=[('global', 'All mail of the firm'), ('account', 'All mail of one mailbox'), ('domain', 'Mail from one domain'), ('sender', 'Mail from one sender')], default='global', max_length=10)),
                ('scope_ref', models.CharField(blank=True, default='', help_text="The domain or the sender's address, in lower case.", max_length=320)),
                ('priority', models.PositiveIntegerField(default=100, help_text='Lower goes first.')),
                ('enabled', models.BooleanField(default=False)),
                ('disabled_reason', models.TextField(blank=True, default='', help_text='Why Mailroom switched it off; empty: it did not.')),
                ('conditions', models.JSONField(help_text='The tree; see mail/rules/conditions.py.')),
                ('category', models.CharField(blank=True, choices=[('needs_response', 'Needs response'), ('action_required', 'Action required'), ('payment_request', 'Payment request'), ('fyi', 'FYI'), ('waiting', 'Waiting')], default='', help_text='Empty: the classifier decides.', max_length=20)),
                ('actions', models.JSONField(blank=True, default=list, help_text='[{action, parameters}], done in this order.')),
                ('safe_mode', models.CharField(choices=[('default', 'None'), ('always_safe', 'That of confidence'), ('dangerous_override', 'That of danger, too')], default='default', max_length=20)),
                ('tried_at', models.DateTimeField(blank=True, help_text='When it was tried as it is; empty after each change.', null=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('changed_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('account', models.ForeignKey(blank=True, db_index=False, help_text='Empty: every mailbox of the firm.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='rules', to='mail.mailaccount')),
                ('firm', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='tenants.firm')),
            ],
        ),
        migrations.AddField(
            model_name='action',
            name='rule',
            field=models.ForeignKey(blank=True, db_index=False, help_text='The rule that asked for it.', null=True, on_delete=django.db.models.deletion.SET_NULL, related_name='+', to='mail.rule'),
        ),
        migrations.AddIndex(
            model_name='rule',
            index=models.Index(condition=models.Q(('enabled', True)), fields=['firm', 'priority'], name='rule_enabled'),
        ),
        migrations.AddConstraint(
            model_name='rule',
            constraint=models.UniqueConstraint(fields=('firm', 'name'), name='rule_name_once'),
        ),
        migrations.AddConstraint(
            model_name='rule',
            constraint=models.CheckConstraint(condition=models.Q(models.Q(('account', None), ('scope', 'global'), ('scope_ref', '')), models.Q(('account__isnull', False), ('scope', 'account'), ('scope_ref', '')), models.Q(('scope__in', ['domain', 'sender']), models.Q(('scope_ref', ''), _negated=True)), _connector='OR'), name='rule_scope_named'),
        ),
        migrations.AddConstraint(
            model_name='rule',
            constraint=models.CheckConstraint(condition=models.Q(('safe_mode__in', ['default', 'always_safe', 'dangerous_override'])), name='rule_safe_mode_known'),
        ),
        protect("mail", "Rule"),
    ]
