"""Checks the scopes of rules and directions, and tells which apply to a sender."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db.models import Q

from mail.models import MailAccount, Scope
from mail.models.scoped import ScopedRow


def of_mailbox(account: MailAccount) -> Q:
    """Return the condition that a row is the mailbox's own, or is every mailbox's."""
    return Q(account=None) | Q(account=account)


def holds_for(account: MailAccount, sender_address: str) -> Q:
    """Return the condition that a row's scope covers this sender's mail in this mailbox."""
    address = sender_address.lower()
    domain = address.rpartition("@")[2] if "@" in address else ""
    return of_mailbox(account) & (
        Q(scope__in=[Scope.GLOBAL, Scope.ACCOUNT])
        | Q(scope=Scope.DOMAIN, scope_ref=domain)
        | Q(scope=Scope.SENDER, scope_ref=address)
    )


def covers(row: ScopedRow, sender_address: str) -> bool:
    """Say whether the row, of the right mailbox, has this sender (in lower case) in its scope."""
    if row.scope == Scope.SENDER:
        return row.scope_ref == sender_address
    return row.scope != Scope.DOMAIN or sender_address.endswith(f"@{row.scope_ref}")


def in_scope(row: ScopedRow) -> Q:
    """Return the condition on messages that their sender is in the row's scope."""
    if row.scope == Scope.SENDER:
        return Q(sender_address__iexact=row.scope_ref)
    if row.scope == Scope.DOMAIN:
        return Q(sender_address__iendswith=f"@{row.scope_ref}")
    return Q()


def scope_faults(settings: dict[str, Any]) -> list[dict[str, str]]:
    """Return what is wrong with `scope`, `scope_ref`, `account_id`. Must run in the firm's scope."""
    scope, ref = settings["scope"], settings["scope_ref"].strip()
    account_id: UUID | None = settings["account_id"]
    if scope not in Scope.values:
        return [fault("scope", f"must be one of {', '.join(Scope.values)}")]
    if account_id is not None and not MailAccount.objects.filter(pk=account_id).exists():
        return [fault("account_id", "is no mailbox of this firm")]
    if scope == Scope.ACCOUNT and account_id is None:
        return [fault("account_id", "is missing: the scope is one mailbox")]
    if scope == Scope.GLOBAL and account_id is not None:
        return [fault("account_id", "must be empty: the scope is all mail of the firm")]
    if scope in (Scope.GLOBAL, Scope.ACCOUNT) and ref:
        return [fault("scope_ref", "must be empty: the scope names no sender")]
    if scope == Scope.DOMAIN and (not ref or "@" in ref or " " in ref):
        return [fault("scope_ref", "must be a domain, such as example.org")]
    if scope == Scope.SENDER and ("@" not in ref or " " in ref):
        return [fault("scope_ref", "must be an address, such as ann@example.org")]
    return []


def fault(field: str, message: str) -> dict[str, str]:
    """Return a fault of one setting."""
    return {"field": field, "code": "invalid", "message": message}
