"""Rules that are proposed for what the person corrected, and the event that one was."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('mail', '0017_reminders_and_agent_schedules'),
    ]

    operations = [
        migrations.AddField(
            model_name='rule',
            name='corrections',
            field=models.PositiveIntegerField(db_default=0, default=0, help_text="For so many corrections by the person Mailroom proposed it; 0: it is somebody's."),
        ),
        migrations.AlterField(
            model_name='mailevent',
            name='event_type',
            field=models.CharField(choices=[('connected', 'Connected'), ('disconnected', 'Disconnected'), ('mode_changed', 'Mode changed'), ('needs_reauth', 'Needs to be connected again'), ('history_expired', 'History expired'), ('watch_failed', 'Watch not renewed'), ('label_deleted', 'Label deleted in Gmail'), ('routed', 'Routed'), ('ingested', 'Ingested'), ('agent_finished', 'Agent finished'), ('agent_escalated', 'Agent asks for a person'), ('classified', 'Classified'), ('rule_proposed', 'Rule proposed'), ('action_completed', 'Action completed'), ('action_failed', 'Action failed'), ('sent', 'Sent'), ('send_failed', 'Not sent'), ('send_unknown', 'Perhaps sent'), ('approval_asked', 'Approval asked for'), ('approved', 'Approved'), ('rejected', 'Rejected'), ('approval_expired', 'Approval expired'), ('undo_requested', 'Undo requested'), ('action_undone', 'Action undone'), ('unsnoozed', 'Back from snooze'), ('draft_created', 'Draft created'), ('draft_reworked', 'Draft reworked'), ('draft_kept', 'Edited draft left alone'), ('draft_withdrawn', 'Draft withdrawn'), ('draft_discarded', 'Draft discarded'), ('draft_refused', 'Not drafted'), ('rework_limit_reached', 'Rework limit reached'), ('sent_detected', 'Draft sent by the person'), ('archived', 'Marked done'), ('waiting_retriaged', 'Answer came: judged again')], max_length=30),
        ),
    ]
