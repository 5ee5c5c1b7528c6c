"""Finds labels in Gmail by name or id, creates missing ones, and stores their ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jobs.errors import Fault
from mail.errors import ActionInvalid
from mail.gmail.answers import Label
from mail.gmail.client import GmailClient
from mail.gmail.errors import GmailConflict
from mail.labels import KEYS, LABEL_NAMES, USER_LABEL_ID, LabelKey
from mail.models import MAX_LABEL_LENGTH, ActionType, EventType, MailAccount, MailLabel
from mail.services.operation import audit
from mail.services.rules.rules import disable_rules_of_labels
from mail.services.timelines.events import record_event
from tenants.audit import Actor
from tenants.scope import firm_scope

_CATEGORIES = ("PERSONAL", "SOCIAL", "PROMOTIONS", "UPDATES", "FORUMS")
SYSTEM_LABELS = frozenset({"INBOX", "UNREAD", "STARRED", "IMPORTANT", "SPAM", "TRASH"}).union(
    f"CATEGORY_{name}" for name in _CATEGORIES
)


@dataclass(frozen=True)
class LabelChanges:
    """How many labels were created, renamed and deleted in Gmail since they were last read."""

    created: int = 0
    renamed: int = 0
    deleted: int = 0


def known_label_id(account: MailAccount, label: str) -> str | None:
    """Return the id of a label by its id or name (any case); None if it is not stored here.

    Mailroom's own labels are also found by the names that people have given them since.
    """
    if label.upper() in SYSTEM_LABELS:
        return label.upper()
    name = label.casefold()
    key = KEYS.get(name)
    with firm_scope(account.firm_id):
        known = list(MailLabel.objects.filter(account=account))
    matches = [
        *(row for row in known if row.gmail_label_id == label),
        *(row for row in known if key is not None and row.key == key),
        *(row for row in known if row.name.casefold() == name),
    ]
    return matches[0].gmail_label_id if matches else None


def refresh_labels(account: MailAccount, gmail: GmailClient) -> LabelChanges:
    """Store the labels as Gmail has them; descriptions that people wrote here stay.

    Labels that Gmail no longer has are deleted here, and the rules that name them switched off.
    """
    present = {label["id"]: label for label in gmail.list_labels() if label.get("type") != "system"}
    with firm_scope(account.firm_id):
        known = {row.gmail_label_id: row for row in MailLabel.objects.filter(account=account)}
        renamed = [
            row
            for label_id, row in known.items()
            if label_id in present and row.name != _name(present[label_id])
        ]
        for row in renamed:
            row.name = _name(present[row.gmail_label_id])
            row.save(update_fields=["name"])
        created = [label for label_id, label in present.items() if label_id not in known]
        for label in created:
            _remember(account, label)
        deleted = [row for label_id, row in known.items() if label_id not in present]
        if deleted:
            _forget(account, deleted)
    return LabelChanges(len(created), len(renamed), len(deleted))


def _forget(account: MailAccount, deleted: Sequence[MailLabel]) -> None:
    disable_rules_of_labels(account, [(row.gmail_label_id, row.name) for row in deleted])
    for row in deleted:
        record_event(EventType.LABEL_DELETED, account, detail={"label_id": row.gmail_label_id})
    MailLabel.objects.filter(pk__in=[row.pk for row in deleted]).delete()


def describe_label(
    label: MailLabel,
    *,
    by: Actor,
    description: str | None = None,
    available_to_classifier: bool | None = None,
    reason: str = "",
) -> None:
    """Set the label's purpose, and whether the classifier may choose it; None changes nothing."""
    given = {"description": description, "available_to_classifier": available_to_classifier}
    values = {name: value for name, value in given.items() if value is not None}
    with firm_scope(label.firm_id):
        before = {name: getattr(label, name) for name in values}
        MailLabel.objects.filter(pk=label.pk).update(**values)
        audit("label.describe", label, by, reason, before=before, after=values)


def ensure_label(account: MailAccount, gmail: GmailClient, label: str) -> str:
    """Return the id of a label by its id or name; a label with a new name is created in Gmail.

    Raises:
        ActionInvalid: the text looks like a label's id, but Gmail has no such label.
    """
    found = find_label(account, gmail, label)
    if found is not None:
        return found
    if USER_LABEL_ID.fullmatch(label):
        fault = Fault("label", "unknown", f"the mailbox has no label with the id {label}")
        raise ActionInvalid(ActionType.APPLY_LABEL, [fault])
    key = KEYS.get(label.casefold())
    if key not in (None, LabelKey.PARENT):
        ensure_label(account, gmail, LABEL_NAMES[LabelKey.PARENT])
    return _create(account, gmail, label)


def find_label(account: MailAccount, gmail: GmailClient, label: str) -> str | None:
    """Return the id of a label by its id or name; Gmail is asked if it is not stored here."""
    found = known_label_id(account, label)
    if found is None:
        refresh_labels(account, gmail)
        found = known_label_id(account, label)
    return found


def ensure_own_labels(account: MailAccount, gmail: GmailClient) -> dict[LabelKey, str]:
    """Create Mailroom's labels that the mailbox lacks, and return the ids of all."""
    return {key: ensure_label(account, gmail, name) for key, name in LABEL_NAMES.items()}


def _create(account: MailAccount, gmail: GmailClient, name: str) -> str:
    try:
        label = gmail.create_label(name)
    except GmailConflict:
        # Another job, or the person, has just created the label.
        refresh_labels(account, gmail)
        found = known_label_id(account, name)
        if found is None:
            raise
        return found
    with firm_scope(account.firm_id):
        _remember(account, label)
    return label["id"]


def _remember(account: MailAccount, label: Label) -> None:
    name = _name(label)
    MailLabel.objects.update_or_create(
        account=account,
        gmail_label_id=label["id"],
        defaults={"name": name},
        create_defaults={"name": name, "key": KEYS.get(name.casefold(), "")},
    )


def _name(label: Label) -> str:
    return label["name"][:MAX_LABEL_LENGTH]
