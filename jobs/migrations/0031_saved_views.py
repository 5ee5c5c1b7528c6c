"""People's views of the admin's lists."""

import django.db.models.deletion
import django.db.models.functions.datetime
import uuid_utils.compat
from django.conf import settings
from django.db import migrations, models

from tenants.rls import protect


class Migration(migrations.Migration):

    dependencies = [
        ('jobs', '0030_attempt_logs'),
        ('tenants', '0010_audit_erasure'),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name='SavedView',
            fields=[
                ('id', models.UUIDField(default=uuid_utils.compat.uuid7, editable=False, primary_key=True, serialize=False)),
                ('listing', models.CharField(choices=[('jobs', 'jobs'), ('dead_letters', 'dead_letters')], max_length=20)),
                ('name', models.CharField(max_length=60)),
                ('parameters', models.JSONField(help_text="The list's query parameters, each with its value.")),
                ('shared', models.BooleanField(db_default=False, default=False, help_text="Whether the firm's other members see it.")),
                ('created_at', models.DateTimeField(db_default=django.db.models.functions.datetime.Now(), editable=False)),
                ('firm', models.ForeignKey(db_constraint=False, db_index=False, on_delete=django.db.models.deletion.DO_NOTHING, related_name='+', to='tenants.firm')),
                ('user', models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name='+', to=settings.AUTH_USER_MODEL)),
            ],
            options={
                'constraints': [models.UniqueConstraint(fields=('firm', 'listing', 'user', 'name'), name='saved_view_once'), models.CheckConstraint(condition=models.Q(('listing__in', ['jobs', 'dead_letters'])), name='saved_view_listing_known')],
            },
        ),
        protect("jobs", "SavedView"),
    ]
