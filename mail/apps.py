"""Django's handle on the mail app."""

from __future__ import annotations

from django.apps import AppConfig


class MailConfig(AppConfig):
    """Gmail automation; everything it does is a job."""

    name = "mail"
    default_auto_field = "django.db.models.BigAutoField"
