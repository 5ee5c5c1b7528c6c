"""Documents of closed mailboxes, and schedules of agents whose people left, end with a reason."""

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('mail', '0022_decision_of_person'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='agentschedule',
            name='stopped',
            field=models.CharField(blank=True, db_default='', default='', editable=False, help_text='Why it was switched off by itself; empty where it was not.', max_length=100),
        ),
        migrations.AlterField(
            model_name='agentschedule',
            name='user',
            field=models.ForeignKey(blank=True, db_index=False, help_text='On whose behalf it runs; it stops when they leave. Empty: the firm.', null=True, on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AlterField(
            model_name='document',
            name='reason',
            field=models.CharField(blank=True, choices=[('', ''), ('switched_off', 'Attachments are not read here'), ('too_large', 'It is too large'), ('gone', 'It is no longer in Gmail'), ('infected', 'It is infected'), ('not_scannable', 'The malware scanner does not take it'), ('wrong_type', 'It is not what its name says'), ('encrypted', 'It is encrypted'), ('macros', 'It contains macros'), ('damaged', 'It is damaged'), ('unpacks_too_large', 'It unpacks to too much'), ('memory', 'Reading it takes too much memory'), ('time', 'Reading it takes too long'), ('died', 'Reading it ended the process that read it'), ('no_text', 'It has no text'), ('cut', 'Only its beginning was read'), ('erased', 'It mentions a person who was erased'), ('imported', 'It was imported without its content'), ('disconnected', 'Its mailbox was disconnected or switched off before')], default='', help_text='Why it was not read, or not whole.', max_length=20),
        ),
    ]
