"""The second wall on the mail tables."""

from django.db import migrations

from tenants.rls import protect


class Migration(migrations.Migration):
    dependencies = [("mail", "0001_initial"), ("tenants", "0004_row_level_security")]

    operations = [
        protect(
            "mail",
            "MailAccount",
            "MailThread",
            "Message",
            "Attachment",
            "MailLabel",
            "Decision",
            "Action",
            "MailEvent",
        )
    ]
