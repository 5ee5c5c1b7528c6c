"""The reserved firm that owns jobs of no firm."""

from django.db import migrations


def create(apps, schema_editor):
    apps.get_model("tenants", "Firm").objects.get_or_create(
        slug="system", defaults={"name": "System"}
    )


class Migration(migrations.Migration):
    dependencies = [("tenants", "0001_initial")]

    operations = [migrations.RunPython(create, migrations.RunPython.noop)]
