"""A fan-in may wait for a completed job, and keep the jobs that follow in a chain."""

from __future__ import annotations

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0027_idempotency_key_expiry'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.AddField(
            model_name='fanin',
            name='delay',
            field=models.FloatField(db_default=0.0, default=0.0, help_text='Seconds.'),
        ),
        migrations.AddField(
            model_name='fanin',
            name='only_completed',
            field=models.BooleanField(db_default=False, default=False, help_text='The members must be completed, not only settled.'),
        ),
        migrations.AddField(
            model_name='fanin',
            name='rest',
            field=models.JSONField(db_default=[], default=list, help_text='The jobs that follow it in its chain.'),
        ),
        migrations.AddField(
            model_name='fanin',
            name='user',
            field=models.ForeignKey(blank=True, db_constraint=False, db_index=False, null=True, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to=settings.AUTH_USER_MODEL),
        ),
        migrations.AlterField(
            model_name='fanin',
            name='name',
            field=models.CharField(help_text='The step of the parent that made it, or a chain.', max_length=200),
        ),
    ]
