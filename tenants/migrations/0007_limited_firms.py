"""Finds the few firms that are capped or inactive."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tenants', '0006_api_key'),
    ]

    operations = [
        migrations.AddIndex(
            model_name='firm',
            index=models.Index(condition=models.Q(('running_cap__isnull', False), ('active', False), _connector='OR'), fields=['id'], name='firm_limited'),
        ),
    ]
