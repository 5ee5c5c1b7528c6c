"""Rows that hold for the mail in a scope: all of a firm, one mailbox, one domain, one sender."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from mail.models.account import MAX_ADDRESS_LENGTH, MailAccount
from tenants.models import TenantModel


class Scope(models.TextChoices):
    """Whose mail a row is about."""

    GLOBAL = "global", "All mail of the firm"
    ACCOUNT = "account", "All mail of one mailbox"
    DOMAIN = "domain", "Mail from one domain"
    SENDER = "sender", "Mail from one sender"


class ScopedRow(TenantModel):
    """A row with a scope; a mailbox narrows the scope of a domain or sender further."""

    account = models.ForeignKey(
        MailAccount,
        null=True,
        blank=True,
        on_delete=models.CASCADE,
        db_index=False,
        related_name="%(class)ss",
        help_text="Empty: every mailbox of the firm.",
    )
    scope = models.CharField(max_length=10, choices=Scope, default=Scope.GLOBAL)
    scope_ref = models.CharField(
        max_length=MAX_ADDRESS_LENGTH,
        blank=True,
        default="",
        help_text="The domain or the sender's address, in lower case.",
    )

    class Meta:
        abstract = True


def scope_constraint(name: str) -> models.CheckConstraint:
    """Return the constraint that a row has exactly the fields that its scope needs."""
    return models.CheckConstraint(
        condition=Q(scope=Scope.GLOBAL, account=None, scope_ref="")
        | Q(scope=Scope.ACCOUNT, account__isnull=False, scope_ref="")
        | (Q(scope__in=[Scope.DOMAIN, Scope.SENDER]) & ~Q(scope_ref="")),
        name=name,
    )
