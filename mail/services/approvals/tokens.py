"""Signed tokens for links in e-mails and buttons in Discord, each for one approval's content."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.core import signing

from mail.models import Approval
from tenants.scope import firm_scope

_LINK = signing.Signer(salt="mail.approval.link", sep=":")
_BUTTON = signing.Signer(salt="mail.approval.button", sep=":", algorithm="sha1")
_NAMES = re.compile(r"(\d{1,18})\.([0-9a-f]{32})\.(\w{1,40})")


@dataclass(frozen=True)
class Token:
    """The approval that a token names; a forged token names it, too, but is not `genuine`.

    `choice` is the user's id in a link, and "approve" or "reject" in a button.
    """

    approval: Approval
    choice: str
    genuine: bool


def link_token(approval: Approval, user: Any) -> str:
    """Return the token of a link for this person."""
    return _signed(_LINK, approval, str(user.pk))


def button_token(approval: Approval, choice: str) -> str:
    """Return the token of a button, which Discord limits to 100 characters."""
    return _signed(_BUTTON, approval, choice)


def read_link(token: str) -> Token | None:
    """Return what a link's token names; None if it names no approval."""
    return _read(_LINK, token)


def read_button(token: str) -> Token | None:
    """Return what a button's token names; None if it names no approval."""
    return _read(_BUTTON, token)


def _signed(signer: signing.Signer, approval: Approval, choice: str) -> str:
    names = f"{approval.firm_id}.{approval.pk.hex}.{choice}"
    return f"{names}:{signer.signature(_bound(names, approval))}"


def _bound(names: str, approval: Approval) -> str:
    """Return what is signed; with other content the signature no longer fits."""
    return f"{names}.{approval.content_hash}"


def _read(signer: signing.Signer, token: str) -> Token | None:
    names, _, signature = token.partition(":")
    match = _NAMES.fullmatch(names)
    if match is None:
        return None
    with firm_scope(int(match[1])):
        rows = Approval.objects.select_related(
            "account", "message", "action__message", "outbound__account", "firm"
        )
        approval: Approval | None = rows.filter(pk=UUID(match[2])).first()
    if approval is None:
        return None
    try:
        signer.unsign(f"{_bound(names, approval)}:{signature}")
    except signing.BadSignature:
        return Token(approval, match[3], genuine=False)
    return Token(approval, match[3], genuine=True)
