"""Says in help texts and choices what they are about; nothing changes in the database."""

from __future__ import annotations

from django.db import migrations, models

from interfaces.migration_operations import AlterFieldTexts


class Migration(migrations.Migration):
    dependencies = [
        ("mail", "0030_agent_schedule_ran_at"),
    ]

    operations = [
        AlterFieldTexts([
            migrations.AlterField(
                model_name="agentprofile",
                name="max_iterations",
                field=models.PositiveSmallIntegerField(
                    default=10, help_text="How often at most the model is asked about one message."
                ),
            ),
            migrations.AlterField(
                model_name="agentprofile",
                name="max_tokens",
                field=models.PositiveIntegerField(
                    default=4096, help_text="The most tokens in each reply."
                ),
            ),
            migrations.AlterField(
                model_name="agentprofile",
                name="model",
                field=models.CharField(
                    blank=True, default="", help_text="Empty: the model in LLM_MODEL.", max_length=100
                ),
            ),
            migrations.AlterField(
                model_name="agentprofile",
                name="name",
                field=models.CharField(help_text="Routing rules use this name.", max_length=100),
            ),
            migrations.AlterField(
                model_name="document",
                name="reason",
                field=models.CharField(
                    blank=True,
                    choices=[
                        ("", ""),
                        ("switched_off", "Attachments are not read here"),
                        ("too_large", "It is too large"),
                        ("gone", "It is no longer in Gmail"),
                        ("infected", "It is infected"),
                        ("not_scannable", "The malware scanner does not accept it"),
                        ("wrong_type", "Its content does not match its name"),
                        ("encrypted", "It is encrypted"),
                        ("macros", "It contains macros"),
                        ("damaged", "It is damaged"),
                        ("unpacks_too_large", "It is too large once unpacked"),
                        ("memory", "Reading it takes too much memory"),
                        ("time", "Reading it takes too long"),
                        ("died", "Reading it crashed the process that read it"),
                        ("no_text", "It has no text"),
                        ("cut", "Only its beginning was read"),
                        ("erased", "It mentions a person who was erased"),
                        ("imported", "It was imported without its content"),
                        (
                            "disconnected",
                            "Its mailbox was disconnected or switched off before it was read",
                        ),
                    ],
                    default="",
                    help_text="Why it was not read, or not whole.",
                    max_length=20,
                ),
            ),
            migrations.AlterField(
                model_name="mailaccount",
                name="active",
                field=models.BooleanField(
                    default=True, help_text="The jobs of an inactive mailbox are canceled."
                ),
            ),
            migrations.AlterField(
                model_name="mailaccount",
                name="held_until",
                field=models.DateTimeField(
                    blank=True,
                    help_text="Gmail asked for fewer requests: no job of the mailbox calls Gmail before this time.",
                    null=True,
                ),
            ),
            migrations.AlterField(
                model_name="mailaccount",
                name="read_attachments",
                field=models.BooleanField(
                    db_default=True,
                    default=True,
                    help_text="Attachments of its new mail are read, unless READ_ATTACHMENTS is off for all mailboxes.",
                ),
            ),
            migrations.AlterField(
                model_name="maillabel",
                name="available_to_classifier",
                field=models.BooleanField(
                    db_default=True, default=True, help_text="The classifier may choose this label."
                ),
            ),
            migrations.AlterField(
                model_name="maillabel",
                name="description",
                field=models.TextField(
                    blank=True,
                    db_default="",
                    default="",
                    help_text="Tells the classifier what the label is for.",
                ),
            ),
            migrations.AlterField(
                model_name="notificationpreference",
                name="quiet_until",
                field=models.TimeField(
                    blank=True, help_text="At this time of day whatever waited is delivered.", null=True
                ),
            ),
            migrations.AlterField(
                model_name="outboundmessage",
                name="automatic",
                field=models.BooleanField(
                    default=False, help_text="No person wrote it, so Mailroom guards against loops."
                ),
            ),
            migrations.AlterField(
                model_name="replysettings",
                name="default_language",
                field=models.CharField(
                    default="en",
                    help_text="Used where the language of the message cannot be told.",
                    max_length=10,
                ),
            ),
            migrations.AlterField(
                model_name="replystyle",
                name="language",
                field=models.CharField(
                    default="auto",
                    help_text="A code such as en, or auto for the language of the message.",
                    max_length=10,
                ),
            ),
            migrations.AlterField(
                model_name="routingrule",
                name="position",
                field=models.PositiveIntegerField(
                    default=100, help_text="Lower numbers are checked first."
                ),
            ),
            migrations.AlterField(
                model_name="rule",
                name="priority",
                field=models.PositiveIntegerField(
                    default=100, help_text="Lower numbers are checked first."
                ),
            ),
            migrations.AlterField(
                model_name="rule",
                name="safe_mode",
                field=models.CharField(
                    choices=[
                        ("default", "None"),
                        ("always_safe", "The confidence check"),
                        ("dangerous_override", "The confidence and danger checks"),
                    ],
                    default="default",
                    max_length=20,
                ),
            ),
        ]),
    ]
