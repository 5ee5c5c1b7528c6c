"""What a person decided is found by mailbox: the offline classifier learns from it."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('mail', '0021_follow_ups'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='decision',
            index=models.Index(condition=models.Q(('source', 'person')), fields=['firm', 'account', 'id'], name='decision_of_person'),
        ),
    ]
