"""Keeps when the agent of a timetable last ran: a run counts for all dates before it."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("mail", "0029_agent_run_running")]

    operations = [
        migrations.AddField(
            model_name="agentschedule",
            name="ran_at",
            field=models.DateTimeField(
                null=True,
                blank=True,
                editable=False,
                help_text="When its agent last ran to the end.",
            ),
        ),
    ]
