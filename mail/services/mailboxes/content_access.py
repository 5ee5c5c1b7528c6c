"""Decides who may read a mailbox's mail; other members see only that there is mail."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import Q
from django.utils import timezone

from mail.errors import ReasonMissing
from mail.models import ContentGrant, GrantKind, MailAccount
from mail.services.mailboxes.accounts import in_firm_scope
from mail.services.operation import audit
from tenants.audit import Actor
from tenants.models import Membership
from tenants.scope import firm_scope

BREAK_GLASS_HOURS = 1


def readable(user_id: Any, prefix: str = "") -> Q:
    """Return the condition that the user may read a mailbox's mail; `prefix` leads to the mailbox.

    Must run in a scope, because grants are read.
    """
    if user_id is None:
        # Without a user there is no owner to match, not even in mailboxes that have none.
        return Q(**{f"{prefix}shared": True})
    granted = _in_force(user_id).values_list("account_id", flat=True)
    return (
        Q(**{f"{prefix}shared": True})
        | Q(**{f"{prefix}owner_id": user_id})
        | Q(**{f"{prefix}pk__in": list(granted)})
    )


def own_or_granted(user_id: Any) -> Q:
    """Return the condition that the mailbox is the user's, or granted to them for good.

    It is narrower than `readable`: a mailbox that the whole firm may read, or that was opened by
    break-glass, is not a person's own. Must run in a scope, because grants are read.
    """
    granted = _in_force(user_id).filter(kind=GrantKind.GRANTED)
    return Q(owner_id=user_id) | Q(pk__in=list(granted.values_list("account_id", flat=True)))


def may_read(user_id: Any, account: MailAccount) -> bool:
    """Say whether the user may read the mailbox's mail. Must run in the firm's scope."""
    if account.shared or (account.owner_id is not None and account.owner_id == user_id):
        return True
    return bool(_in_force(user_id).filter(account=account).exists())


@in_firm_scope
def grant_content(account: MailAccount, user: Any, *, by: Actor, reason: str = "") -> None:
    """Let a member of the firm read the mail until the grant is withdrawn."""
    _store(account, user, GrantKind.GRANTED, by, reason, expires_at=None)
    audit("mailbox.grant", account, by, reason, after={"user": user.get_username()})


@in_firm_scope
def withdraw_content(account: MailAccount, user: Any, *, by: Actor, reason: str = "") -> None:
    """End every grant of the user to the mailbox."""
    ContentGrant.objects.filter(account=account, user=user).delete()
    audit("mailbox.withdraw_grant", account, by, reason, after={"user": user.get_username()})


def end_grants(instance: Membership, **_: Any) -> None:
    """End the grants of a member who leaves the firm; a return does not restore them."""
    with firm_scope(instance.firm_id):
        ContentGrant.objects.filter(firm_id=instance.firm_id, user_id=instance.user_id).delete()


@in_firm_scope
def break_glass(account: MailAccount, *, reason: str, by: Actor) -> None:
    """Let the actor read the mail for an hour, for a reason that the audit log keeps.

    Raises:
        ReasonMissing: no reason is given.
    """
    if not reason.strip() or by.user is None:
        raise ReasonMissing("Say why you must read somebody else's mail.")
    expires_at = timezone.now() + timedelta(hours=BREAK_GLASS_HOURS)
    _store(account, by.user, GrantKind.BREAK_GLASS, by, reason, expires_at=expires_at)
    audit("mailbox.break_glass", account, by, reason, after={"expires_at": expires_at.isoformat()})


def readers(account: MailAccount) -> list[ContentGrant]:
    """Return the mailbox's grants in force. Must run in the firm's scope."""
    grants = ContentGrant.objects.filter(_current(), account=account)
    return list(grants.select_related("user").order_by("pk"))


def _in_force(user_id: Any) -> Any:
    return ContentGrant.objects.filter(_current(), user_id=user_id)


def _current() -> Q:
    return Q(expires_at__isnull=True) | Q(expires_at__gt=timezone.now())


def _store(
    account: MailAccount, user: Any, kind: GrantKind, by: Actor, reason: str, *, expires_at: Any
) -> None:
    ContentGrant.objects.update_or_create(
        firm_id=account.firm_id,
        account=account,
        user=user,
        kind=kind,
        defaults={"reason": reason, "granted_by": by.name, "expires_at": expires_at},
    )
