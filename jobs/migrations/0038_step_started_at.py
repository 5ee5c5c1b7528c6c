"""When a step began is kept beside when it finished."""

from __future__ import annotations

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("jobs", "0037_batch_callbacks")]

    operations = [
        migrations.AddField(
            model_name="jobstep",
            name="started_at",
            field=models.DateTimeField(
                help_text="Unknown: a version before stored it.", null=True
            ),
        ),
    ]
