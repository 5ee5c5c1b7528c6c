"""Whether a mailbox has its attachments read."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('mail', '0023_documents_and_schedules_that_end'),
    ]

    operations = [
        migrations.AddField(
            model_name='mailaccount',
            name='read_attachments',
            field=models.BooleanField(db_default=True, default=True, help_text='Attachments of its new mail are read, unless READ_ATTACHMENTS is off for all.'),
        ),
    ]
