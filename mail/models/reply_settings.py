"""How a firm answers: styles, templates, exceptions for contacts, and settings."""

from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from mail.models.account import MAX_ADDRESS_LENGTH, MailAccount
from tenants.models import TenantModel

MAX_STYLE_LENGTH = 50
MAX_LANGUAGE_LENGTH = 10
MAX_SIGN_OFF_LENGTH = 500
MAX_TEMPLATE_LENGTH = 10_000
MAX_TEMPLATE_NAME_LENGTH = 100


def unique_setting(name: str, *fields: str) -> tuple[models.UniqueConstraint, ...]:
    """Return the constraints that a setting exists once for the firm and once for each mailbox."""
    return (
        models.UniqueConstraint(fields=["firm", "account", *fields], name=name),
        models.UniqueConstraint(
            fields=["firm", *fields], condition=Q(account=None), name=f"{name}_of_firm"
        ),
    )


class ReplyRow(TenantModel):
    """A setting of the firm, or of one mailbox, which takes precedence over the firm's."""

    account = models.ForeignKey(
        MailAccount,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        db_index=False,
        related_name="%(class)ss",
        help_text="Empty: every mailbox of the firm.",
    )
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    changed_at = models.DateTimeField(db_default=Now(), editable=False)

    class Meta:
        abstract = True


class ReplySettings(ReplyRow):
    """Whether and how drafts are made."""

    enabled = models.BooleanField(default=True, help_text="Off: nothing is drafted by itself.")
    gather_context = models.BooleanField(
        default=True, help_text="Show the model earlier mail with the same person."
    )
    default_style = models.CharField(max_length=MAX_STYLE_LENGTH, default="business")
    default_language = models.CharField(
        max_length=MAX_LANGUAGE_LENGTH,
        default="en",
        help_text="Used where the language of the message cannot be told.",
    )
    sign_off_name = models.CharField(
        max_length=200, blank=True, default="", help_text="Empty: the mailbox's name."
    )

    class Meta:
        verbose_name = verbose_name_plural = "reply settings"
        constraints = [
            *unique_setting("reply_settings_once"),
        ]

    def __str__(self) -> str:
        return "On" if self.enabled else "Off"


class ReplyStyle(ReplyRow):
    """A tone in which to answer; one with a built-in style's name replaces that style."""

    name = models.CharField(max_length=MAX_STYLE_LENGTH)
    rules: models.JSONField[list[str], list[str]] = models.JSONField(
        default=list, blank=True, help_text="What the writer has to keep to, a sentence each."
    )
    sign_off = models.CharField(max_length=MAX_SIGN_OFF_LENGTH, blank=True, default="")
    language = models.CharField(
        max_length=MAX_LANGUAGE_LENGTH,
        default="auto",
        help_text="A code such as en, or auto for the language of the message.",
    )
    examples: models.JSONField[list[dict[str, str]], list[dict[str, str]]] = models.JSONField(
        default=list, blank=True, help_text="[{context, input, draft}]"
    )

    class Meta:
        constraints = [
            *unique_setting("reply_style_once", "name"),
        ]

    def __str__(self) -> str:
        return self.name


class ReplyTemplate(ReplyRow):
    """A text to answer with where no language model is asked."""

    name = models.CharField(max_length=MAX_TEMPLATE_NAME_LENGTH)
    style = models.CharField(
        max_length=MAX_STYLE_LENGTH, blank=True, default="", help_text="Empty: any."
    )
    language = models.CharField(
        max_length=MAX_LANGUAGE_LENGTH, blank=True, default="", help_text="Empty: any."
    )
    text = models.TextField(help_text="May use {name}, {subject}, {sign_off} and {owner}.")
    enabled = models.BooleanField(default=True)

    class Meta:
        constraints = [
            *unique_setting("reply_template_once", "name"),
        ]

    def __str__(self) -> str:
        return self.name


class Contact(ReplyRow):
    """The exceptions for one sender, or for all senders of a domain."""

    pattern = models.CharField(
        max_length=MAX_ADDRESS_LENGTH,
        help_text="An address or a domain, in lower case; * stands for anything.",
    )
    style = models.CharField(
        max_length=MAX_STYLE_LENGTH, blank=True, default="", help_text="Empty: as ever."
    )
    language = models.CharField(
        max_length=MAX_LANGUAGE_LENGTH, blank=True, default="", help_text="Empty: as ever."
    )
    blocked = models.BooleanField(
        default=False, help_text="On the blacklist: its mail is for information only."
    )

    class Meta:
        constraints = [
            *unique_setting("contact_once", "pattern"),
            models.CheckConstraint(condition=~Q(pattern=""), name="contact_pattern_named"),
        ]

    def __str__(self) -> str:
        return self.pattern
