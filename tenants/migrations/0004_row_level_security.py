"""The second wall on the tenants' own tables."""

from django.db import migrations

from tenants.rls import protect


class Migration(migrations.Migration):
    dependencies = [("tenants", "0003_audit_log")]

    operations = [protect("tenants", "Membership", "AuditEntry")]
