"""Finds labels in Gmail by name or id, makes them when missing, and remembers their ids."""

from __future__ import annotations

import re

from mail.errors import ActionInvalid
from mail.gmail.answers import Label
from mail.gmail.client import GmailClient
from mail.gmail.errors import GmailConflict
from mail.labels import LABEL_NAMES, LabelKey
from mail.models import MailAccount, MailLabel
from tenants.scope import firm_scope

SYSTEM_LABELS = frozenset({"INBOX", "UNREAD", "STARRED", "IMPORTANT", "SPAM", "TRASH"})
_KEYS = {name.casefold(): key for key, name in LABEL_NAMES.items()}
# What Gmail calls the labels people make; never a name somebody would choose.
_USER_LABEL_ID = re.compile(r"Label_\d+")


def known_label_id(account: MailAccount, label: str) -> str | None:
    """Return the id of a label by its id or name (any case), None when it is not known here.

    Mailroom's own labels are also found under the names people gave them since.
    """
    if label in SYSTEM_LABELS:
        return label
    name = label.casefold()
    key = _KEYS.get(name)
    with firm_scope(account.firm_id):
        known = list(MailLabel.objects.filter(account=account))
    matches = [
        *(row for row in known if row.gmail_label_id == label),
        *(row for row in known if key is not None and row.key == key),
        *(row for row in known if row.name.casefold() == name),
    ]
    return matches[0].gmail_label_id if matches else None


def refresh_labels(account: MailAccount, gmail: GmailClient) -> None:
    """Bring the known labels in line with Gmail's: those it no longer has are forgotten."""
    present = [label for label in gmail.list_labels() if label.get("type") != "system"]
    with firm_scope(account.firm_id):
        MailLabel.objects.filter(account=account).exclude(
            gmail_label_id__in=[label["id"] for label in present]
        ).delete()
        for label in present:
            _remember(account, label)


def ensure_label(account: MailAccount, gmail: GmailClient, label: str) -> str:
    """Return the id of a label by its id or name; a missing name is made in Gmail.

    Raises:
        ActionInvalid: it looks like a label's id, and Gmail has no such label.
    """
    found = find_label(account, gmail, label)
    if found is not None:
        return found
    if _USER_LABEL_ID.fullmatch(label):
        raise ActionInvalid(f"the mailbox has no label with the id {label}")
    key = _KEYS.get(label.casefold())
    if key not in (None, LabelKey.PARENT):
        ensure_label(account, gmail, LABEL_NAMES[LabelKey.PARENT])
    return _create(account, gmail, label)


def find_label(account: MailAccount, gmail: GmailClient, label: str) -> str | None:
    """Return the id of a label by its id or name, asking Gmail when it is not known here."""
    found = known_label_id(account, label)
    if found is None:
        refresh_labels(account, gmail)
        found = known_label_id(account, label)
    return found


def ensure_own_labels(account: MailAccount, gmail: GmailClient) -> dict[LabelKey, str]:
    """Make sure the mailbox has Mailroom's labels, and return their ids."""
    return {key: ensure_label(account, gmail, name) for key, name in LABEL_NAMES.items()}


def _create(account: MailAccount, gmail: GmailClient, name: str) -> str:
    try:
        label = gmail.create_label(name)
    except GmailConflict:
        # Somebody was faster: another job, or the person.
        refresh_labels(account, gmail)
        found = known_label_id(account, name)
        if found is None:
            raise
        return found
    with firm_scope(account.firm_id):
        _remember(account, label)
    return label["id"]


def _remember(account: MailAccount, label: Label) -> None:
    MailLabel.objects.update_or_create(
        account=account,
        gmail_label_id=label["id"],
        defaults={"name": label["name"]},
        create_defaults={"name": label["name"], "key": _KEYS.get(label["name"].casefold(), "")},
    )
