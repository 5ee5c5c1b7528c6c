"""Finds audit log entries that quote settings of mailboxes which the reader may not read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final
from uuid import UUID

from mail.models import (
    AgentSchedule,
    Contact,
    Direction,
    MailAccount,
    MailLabel,
    ReplySettings,
    ReplyStyle,
    ReplyTemplate,
    RoutingRule,
    Rule,
)
from mail.services.mailboxes.content_access import readable
from mail.services.operation import target_type
from tenants.models import AuditEntry

# Models whose rows only readers of their mailbox may see, by their names in the audit log.
_PRIVATE: Final[dict[str, type[Any]]] = {
    target_type(model): model
    for model in (
        AgentSchedule,
        Contact,
        Direction,
        MailLabel,
        ReplySettings,
        ReplyStyle,
        ReplyTemplate,
        RoutingRule,
        Rule,
    )
}
_MAILBOX: Final = "account_id"

Target = tuple[str, str]


def private_entries(entries: Sequence[AuditEntry], user_id: Any) -> set[UUID]:
    """Return the ids of the entries that only readers of a mailbox may see, not this user.

    If a row is gone and nothing tells its mailbox, nobody may see its entries. Must run in a scope,
    because grants are read.
    """
    asked = [entry for entry in entries if entry.target_type in _PRIVATE]
    mailboxes = {entry.pk: _named(entry) for entry in asked}
    unclear = [entry for entry in asked if not mailboxes[entry.pk]]
    found = _mailboxes_of(unclear)
    mailboxes |= {entry.pk: found[_target(entry)] for entry in unclear}
    readers_of = _readable({name for names in mailboxes.values() for name in names}, user_id)
    return {pk for pk, names in mailboxes.items() if not names or not names <= readers_of}


def _named(entry: AuditEntry) -> set[str]:
    """Return the mailboxes that the entry itself names; an empty name means the whole firm."""
    values = [one for one in (entry.before, entry.after) if isinstance(one, dict)]
    return {str(one[_MAILBOX] or "") for one in values if _MAILBOX in one}


def _mailboxes_of(entries: Sequence[AuditEntry]) -> defaultdict[Target, set[str]]:
    """Return all mailboxes to which the entries' rows belong, or belonged according to the log."""
    found: defaultdict[Target, set[str]] = defaultdict(set)
    if not entries:
        return found
    ids = defaultdict(set)
    for entry in entries:
        ids[entry.target_type].add(entry.target_id)
    for name, targets in ids.items():
        rows = _PRIVATE[name].objects.filter(pk__in=_uuids(targets))
        for pk, account_id in rows.values_list("pk", _MAILBOX):
            found[name, str(pk)].add(str(account_id or ""))
    others = AuditEntry.objects.filter(
        firm_id__in={entry.firm_id for entry in entries},
        target_type__in=list(ids),
        target_id__in={entry.target_id for entry in entries},
    )
    for other in others.only("target_type", "target_id", "before", "after"):
        found[_target(other)] |= _named(other)
    return found


def _target(entry: AuditEntry) -> Target:
    return entry.target_type, entry.target_id


def _readable(names: set[str], user_id: Any) -> set[str]:
    """Return the mailboxes that the user may read, and the empty name, which all may read."""
    accounts = MailAccount.objects.filter(readable(user_id), pk__in=_uuids(names))
    return {"", *(str(pk) for pk in accounts.values_list("pk", flat=True))}


def _uuids(names: Iterable[str]) -> list[UUID]:
    """Return the ids among the names; erasing a person empties some names."""
    found = []
    for name in names:
        try:
            found.append(UUID(name))
        except ValueError:
            continue
    return found
