"""Daily digests: when a person wants them, and when the next one is due."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('mail', '0019_documents'),
    ]

    operations = [
        migrations.AddField(
            model_name='notificationpreference',
            name='digest_at',
            field=models.TimeField(blank=True, help_text="The time of day at which a digest of the person's mailboxes comes; empty: none.", null=True),
        ),
        migrations.AddField(
            model_name='notificationpreference',
            name='due_at',
            field=models.DateTimeField(blank=True, help_text='The next date that is not in the queue yet; empty: none.', null=True),
        ),
        migrations.AddField(
            model_name='notificationpreference',
            name='queued_at',
            field=models.DateTimeField(blank=True, editable=False, help_text='The last date that was put into the queue.', null=True),
        ),
        migrations.AddIndex(
            model_name='notificationpreference',
            index=models.Index(condition=models.Q(('due_at__isnull', False)), fields=['due_at'], name='digest_due'),
        ),
    ]
