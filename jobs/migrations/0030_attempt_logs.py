"""What handlers note with `ctx.log`."""

from __future__ import annotations

import django.db.models.deletion
import uuid_utils.compat
from django.db import migrations, models

from tenants.rls import protect


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0029_schedule_runs'),
        ('tenants', '0010_audit_erasure'),
    ]

    operations = [
        migrations.CreateModel(
            name='AttemptLog',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('series', models.SmallIntegerField()),
                ('number', models.SmallIntegerField(help_text='Of the attempt, from 1, within its series.')),
                ('lines', models.JSONField(help_text='Pairs of time and text, redacted, in order.')),
                ('firm', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='tenants.firm')),
                ('job', models.ForeignKey(db_constraint=False, on_delete=django.db.models.deletion.CASCADE, related_name='logs', to='jobs.jobqueue')),
            ],
            options={
                'ordering': ['id'],
            },
        ),
        protect("jobs", "AttemptLog", engine=True),
    ]
