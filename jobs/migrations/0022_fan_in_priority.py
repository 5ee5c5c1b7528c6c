"""The job that follows a fan-in has the priority of the job that asked for it."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0021_notifications")]

    operations = [
        migrations.AddField(
            model_name="fanin",
            name="priority",
            field=models.SmallIntegerField(db_default=2, default=2),
        )
    ]
