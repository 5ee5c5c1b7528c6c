"""The Django app configuration of the mail app."""

from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import post_delete


class MailConfig(AppConfig):
    """Gmail automation; everything it does is a job."""

    name = "mail"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """End content grants with the membership, and register the audit log's private entries."""
        from mail.services.mailboxes.content_access import end_grants
        from mail.services.mailboxes.private_entries import private_entries
        from tenants.audit import register_private_entries
        from tenants.models import Membership

        post_delete.connect(end_grants, sender=Membership)
        register_private_entries(private_entries)
