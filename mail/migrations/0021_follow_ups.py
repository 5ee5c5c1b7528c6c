"""Follow-up reminders: of what message one is, and after how many days a mailbox has them."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('mail', '0020_digests'),
    ]

    operations = [
        migrations.RemoveConstraint(
            model_name='reminder',
            name='reminder_status_known',
        ),
        migrations.AddField(
            model_name='mailaccount',
            name='follow_up_days',
            field=models.PositiveSmallIntegerField(blank=True, help_text='After so many days without an answer the owner is reminded of what they asked; empty: never.', null=True),
        ),
        migrations.AddField(
            model_name='reminder',
            name='message',
            field=models.ForeignKey(blank=True, db_index=False, editable=False, help_text="What nobody answered; empty: the reminder is its person's own.", null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to='mail.message'),
        ),
        migrations.AlterField(
            model_name='mailevent',
            name='event_type',
            field=models.CharField(choices=[('connected', 'Connected'), ('disconnected', 'Disconnected'), ('mode_changed', 'Mode changed'), ('needs_reauth', 'Needs to be connected again'), ('history_expired', 'History expired'), ('watch_failed', 'Watch not renewed'), ('label_deleted', 'Label deleted in Gmail'), ('routed', 'Routed'), ('ingested', 'Ingested'), ('agent_finished', 'Agent finished'), ('agent_escalated', 'Agent asks for a person'), ('classified', 'Classified'), ('rule_proposed', 'Rule proposed'), ('action_completed', 'Action completed'), ('action_failed', 'Action failed'), ('sent', 'Sent'), ('send_failed', 'Not sent'), ('send_unknown', 'Perhaps sent'), ('approval_asked', 'Approval asked for'), ('approved', 'Approved'), ('rejected', 'Rejected'), ('approval_expired', 'Approval expired'), ('undo_requested', 'Undo requested'), ('action_undone', 'Action undone'), ('unsnoozed', 'Back from snooze'), ('draft_created', 'Draft created'), ('draft_reworked', 'Draft reworked'), ('draft_kept', 'Edited draft left alone'), ('draft_withdrawn', 'Draft withdrawn'), ('draft_discarded', 'Draft discarded'), ('draft_refused', 'Not drafted'), ('rework_limit_reached', 'Rework limit reached'), ('sent_detected', 'Draft sent by the person'), ('archived', 'Marked done'), ('waiting_retriaged', 'Answer came: judged again'), ('follow_up', 'Nobody answered: reminder made'), ('follow_up_withdrawn', 'Reminder withdrawn')], max_length=30),
        ),
        migrations.AlterField(
            model_name='reminder',
            name='status',
            field=models.CharField(choices=[('active', 'Active'), ('delivered', 'Delivered'), ('canceled', 'Canceled'), ('withdrawn', 'Withdrawn')], default='active', max_length=10),
        ),
        migrations.AddConstraint(
            model_name='reminder',
            constraint=models.CheckConstraint(condition=models.Q(('status__in', ['active', 'delivered', 'canceled', 'withdrawn'])), name='reminder_status_known'),
        ),
        migrations.AddConstraint(
            model_name='reminder',
            constraint=models.UniqueConstraint(condition=models.Q(('message__isnull', False)), fields=('firm', 'message'), name='reminder_of_message_once'),
        ),
    ]
