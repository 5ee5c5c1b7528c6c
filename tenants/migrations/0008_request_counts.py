"""Counts requests exactly, in a table of their own; the cache's table, which lost some, goes."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('tenants', '0007_limited_firms'),
    ]

    operations = [
        migrations.CreateModel(
            name='RequestCount',
            fields=[
                ('caller', models.CharField(max_length=80, primary_key=True, serialize=False)),
                ('minute', models.BigIntegerField(help_text="Minutes since 1970, by the database's clock.")),
                ('asked', models.IntegerField()),
            ],
        ),
        migrations.RunSQL('DROP TABLE IF EXISTS tenants_cache', migrations.RunSQL.noop),
    ]
