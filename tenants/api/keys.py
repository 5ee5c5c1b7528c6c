"""API keys: issue, find, revoke.

A key reads `mrk_PREFIX_SECRET`. The prefix finds the row, the SHA-256 of the whole proves the
secret; 256 random bits need no slower hash.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import OuterRef, Q, Subquery
from django.db.models.functions import Now

from tenants.access import Access
from tenants.audit import Actor, record_operation
from tenants.models import SYSTEM_SLUG, ApiKey, Firm, Membership, Role
from tenants.scope import all_firms, firm_scope

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

PREFIX_BYTES = 6
SECRET_BYTES = 32
LAST_USED_STEP = timedelta(minutes=1)

_FORM = re.compile(r"mrk_([0-9a-f]{12})_[A-Za-z0-9_-]{43}\Z")


class RoleTooHigh(Exception):
    """The key's role would be higher than its user's."""


class RoleTooLow(Exception):
    """A key to every firm can do everything; it cannot have a lesser role."""


@dataclass(frozen=True)
class Credential:
    """A valid key: its user, and what it may do."""

    key_id: UUID
    user: Any
    access: Access


def issue(
    user: AbstractBaseUser, firm: Firm, role: Role, *, lifetime: timedelta | None, by: Actor
) -> tuple[str, ApiKey]:
    """Create a key; return its text, which is not stored, and its row.

    Platform staff may have a key to any firm; one to the system firm is a key to every firm.

    Raises:
        RoleTooHigh: the user is no member of the firm, or one with a lower role.
        RoleTooLow: the key would be one to every firm, and not with the role admin.
    """
    prefix = secrets.token_hex(PREFIX_BYTES)
    text = f"mrk_{prefix}_{secrets.token_urlsafe(SECRET_BYTES)}"
    with firm_scope(firm):
        _check_role(user, firm, role)
        row: ApiKey = ApiKey.objects.create(
            firm=firm,
            user=user,
            role=role,
            prefix=prefix,
            key_hash=_digest(text),
            expires_at=None if lifetime is None else Now() + lifetime,
        )
        row.refresh_from_db(fields=["expires_at"])
        after = _facts(row)
        record_operation(
            by, "api_key.create", firm_id=firm.pk, target=("api_key", row.pk), after=after
        )
    return text, row


def _check_role(user: AbstractBaseUser, firm: Firm, role: Role) -> None:
    if _is_platform_staff(user):
        if firm.slug == SYSTEM_SLUG and role != Role.ADMIN:
            raise RoleTooLow("a key for every firm needs the role admin")
        return
    member = Membership.objects.filter(firm=firm, user_id=user.pk).first()
    if member is None:
        raise RoleTooHigh(f"{user.get_username()} is not a member of {firm.slug}")
    if not Role(member.role).includes(role):
        raise RoleTooHigh(f"{user.get_username()} only has the role {member.role} in {firm.slug}")


def _is_platform_staff(user: AbstractBaseUser) -> bool:
    return bool(getattr(user, "is_superuser", False))


def find(text: str) -> Credential | None:
    """Return the credential of a key; None unless the key is valid now."""
    form = _FORM.match(text)
    if form is None:
        return None
    with all_firms("an API key tells its firm only once it is found"):
        role_now = Membership.objects.filter(firm=OuterRef("firm"), user=OuterRef("user"))
        keys = (
            ApiKey.objects.select_related("user", "firm")
            .filter(Q(expires_at__isnull=True) | Q(expires_at__gt=Now()))
            .filter(prefix=form[1], revoked_at__isnull=True)
            .filter(user__is_active=True, firm__active=True)
            .annotate(
                member_role=Subquery(role_now.values("role")[:1]),
                used_just_now=Q(last_used_at__gte=Now() - LAST_USED_STEP),
            )
        )
        digest = _digest(text)
        key = next((row for row in keys if hmac.compare_digest(row.key_hash, digest)), None)
        access = None if key is None else _access(key)
        if key is None or access is None:
            return None
        _store_use(key)
    return Credential(key.pk, key.user, access)


def _access(key: ApiKey) -> Access | None:
    """Return what the key's user may do through it now; None for nothing."""
    is_staff = _is_platform_staff(key.user)
    if is_staff and key.firm.slug == SYSTEM_SLUG:
        return Access(None)
    role_now = Role.ADMIN if is_staff else getattr(key, "member_role", None)
    if role_now is None:
        return None
    granted, held = Role(key.role), Role(role_now)
    # A member who was demoted does not keep the old role through the key.
    return Access({key.firm_id: granted if held.includes(granted) else held})


def revoke(prefix: str, *, by: Actor, reason: str = "") -> int:
    """Revoke the keys with this prefix for good; return how many were still valid."""
    with all_firms("an API key is withdrawn by its prefix"):
        valid = ApiKey.objects.filter(prefix=prefix, revoked_at__isnull=True)
        keys = list(valid.select_related("user"))
        for key in keys:
            ApiKey.objects.filter(pk=key.pk).update(revoked_at=Now())
            record_operation(
                by,
                "api_key.revoke",
                firm_id=key.firm_id,
                target=("api_key", key.pk),
                reason=reason,
                before=_facts(key),
            )
    return len(keys)


def _facts(key: ApiKey) -> dict[str, str | None]:
    """Return what the audit log keeps of a key."""
    return {
        "user": key.user.get_username(),
        "role": str(key.role),
        "prefix": key.prefix,
        "expires_at": None if key.expires_at is None else key.expires_at.isoformat(),
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _store_use(key: Any) -> None:
    """Store the time of use, to the minute: one write per request would cost too much."""
    if not key.used_just_now:
        ApiKey.objects.filter(pk=key.pk).update(last_used_at=Now())
