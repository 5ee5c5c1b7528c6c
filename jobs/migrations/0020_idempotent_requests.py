"""The keys of REST requests, with their answers."""

import django.db.models.deletion
import django.db.models.functions.datetime
import uuid_utils.compat
from django.conf import settings
from django.db import migrations, models

from tenants.rls import protect


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0019_rollups'),
        ('tenants', '0008_request_counts'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='IdempotentRequest',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('key', models.CharField(max_length=200)),
                ('digest', models.CharField(help_text='Of method, address and body.', max_length=64)),
                ('answer_status', models.SmallIntegerField(null=True)),
                ('answer', models.JSONField(null=True)),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('firm', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='tenants.firm')),
                ('user', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'indexes': [models.Index(fields=['firm', 'created_at'], name='idempotent_request_age')],
                'constraints': [models.UniqueConstraint(fields=('firm', 'user', 'key'), name='idempotent_request_once')],
            },
        ),
        # For the engine, which prunes them.
        protect("jobs", "IdempotentRequest", engine=True),
    ]
