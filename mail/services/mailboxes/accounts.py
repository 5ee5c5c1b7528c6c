"""Finds and creates mailboxes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar
from uuid import UUID

from mail.errors import MailboxGone, MailboxInactive, WrongState
from mail.gmail.answers import SendAs
from mail.gmail.client import GmailClient
from mail.models import MAX_ADDRESS_LENGTH, MailAccount, Mode
from mail.services.mailboxes.connection import check_connection
from mail.text.addresses import inbox_of
from mail.text.cleaning import clean_line, clean_text
from tenants.access import access_of
from tenants.models import Firm, Role
from tenants.scope import firm_scope

MAX_NAME_LENGTH = 200
MAX_SIGNATURE_LENGTH = 50_000
SYSTEM_FIRM = "The system firm cannot have a mailbox: it owns only what serves every firm."

P = ParamSpec("P")
T = TypeVar("T")


def in_firm_scope(
    operation: Callable[Concatenate[MailAccount, P], T],
) -> Callable[Concatenate[MailAccount, P], T]:
    """Run an operation on a mailbox in its firm's scope, even if the caller's scope is wider."""

    @wraps(operation)
    def run(account: MailAccount, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with firm_scope(account.firm_id):
            return operation(account, *args, **kwargs)

    return run


def usable_account(firm_id: int, account_id: UUID) -> MailAccount:
    """Return a mailbox that may be worked on.

    Raises:
        MailboxGone: the firm has no such mailbox.
        MailboxInactive: the mailbox is switched off.
        MailboxDisconnected: the mailbox is disconnected.
        MailboxWaits: the mailbox's jobs must wait.
    """
    with firm_scope(firm_id):
        account: MailAccount | None = MailAccount.objects.filter(pk=account_id).first()
    if account is None:
        raise MailboxGone(f"mailbox {account_id} is gone, or belongs to another firm")
    if not account.active:
        raise MailboxInactive(f"mailbox {account_id} is switched off; activate it, then retry")
    check_connection(account)
    return account


def open_account(firm: Firm, address: str, *, display_name: str = "") -> MailAccount:
    """Return the firm's local mailbox of this address; create it, active and shared, if missing.

    Raises:
        WrongState: it is the system firm.
        ValueError: the text is not one mail address.
    """
    if firm.is_system:
        raise WrongState(SYSTEM_FIRM)
    address = address.strip().lower()
    local, _, domain = address.rpartition("@")
    odd = any(character.isspace() or character in ",;<>" for character in address)
    if not local or not domain or odd or len(address) > MAX_ADDRESS_LENGTH:
        raise ValueError(f"{address!r} is not a mail address")
    with firm_scope(firm):
        account: MailAccount = MailAccount.objects.get_or_create(
            address=address,
            defaults={"display_name": display_name, "mode": Mode.ACTIVE, "shared": True},
        )[0]
    return account


def has_owner(account: MailAccount) -> bool:
    """Say whether the mailbox has an owner who is active and a member of the firm."""
    owner = account.owner
    if owner is None or not owner.is_active:
        return False
    return access_of(owner).may(Role.VIEWER, account.firm_id)


def own_addresses(account: MailAccount) -> frozenset[str]:
    """Return the addresses under which the mailbox's owner writes, in lower case."""
    return frozenset({account.address, *account.aliases})


def own_inboxes(account: MailAccount) -> frozenset[str]:
    """Return what `inbox_of` makes of the owner's addresses: other spellings give the same."""
    return frozenset(map(inbox_of, own_addresses(account)))


def refresh_aliases(account: MailAccount, gmail: GmailClient) -> None:
    """Read from Gmail the addresses under which the owner writes, with names and signatures."""
    listed = gmail.list_send_as()
    aliases, identities = own_aliases(account.address, listed), own_identities(listed)
    if (aliases, identities) != (account.aliases, account.identities):
        account.aliases, account.identities = aliases, identities
        with firm_scope(account.firm_id):
            MailAccount.objects.filter(pk=account.pk).update(aliases=aliases, identities=identities)


def own_aliases(address: str, listed: Iterable[SendAs]) -> list[str]:
    """Return the verified addresses that Gmail lists beside the mailbox's own, in lower case."""
    usable = {entry["sendAsEmail"].lower() for entry in listed if _is_usable(entry)}
    return sorted(usable - {address})


def own_identities(listed: Iterable[SendAs]) -> list[dict[str, str]]:
    """Return the verified addresses with name and signature, the default one first."""
    usable = [entry for entry in listed if _is_usable(entry)]
    usable.sort(key=lambda entry: (not entry.get("isDefault", False), entry["sendAsEmail"]))
    return [
        {
            "address": entry["sendAsEmail"].lower(),
            "name": clean_line(entry.get("displayName", ""), MAX_NAME_LENGTH),
            "signature": clean_text(entry.get("signature", ""), MAX_SIGNATURE_LENGTH),
        }
        for entry in usable
    ]


def _is_usable(entry: SendAs) -> bool:
    return entry.get("verificationStatus", "accepted") == "accepted"
