"""The labels that rules name: by Gmail's ids in a mailbox's rule, by names in a firm's rule.

Each mailbox has its own ids: the same id is another label elsewhere. Only Gmail's own labels have
the same ids everywhere. Old rules of a whole firm hold an id, which stands for the name that their
pages showed. Everything here must be used in the firm's scope.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any
from uuid import UUID

from mail.errors import ConditionsInvalid, RuleInvalid
from mail.labels import GMAIL_LABELS, KEYS, LABEL_NAMES, USER_LABEL_ID, LabelKey, is_own_label
from mail.models import MailAccount, MailLabel
from mail.rules.conditions import Group, Leaf, parse_conditions, with_labels
from mail.services.rules.scopes import fault


class MailboxLabels:
    """The labels of one mailbox, read at the first use."""

    def __init__(self, account_id: UUID) -> None:
        self._account_id = account_id

    def with_ids(self, condition: Group | Leaf, *, firm_wide: bool) -> Group | Leaf:
        """Return a rule's conditions with the ids that its labels have in this mailbox."""
        find = self._id_of_firms if firm_wide else self._id_of_own
        return with_labels(condition, lambda label, _: find(label))

    def find(self, label: str) -> str | None:
        """Return the id of a label, given its id or name; None if the mailbox does not have it."""
        if label.upper() in GMAIL_LABELS:
            return label.upper()
        return label if label in {row.gmail_label_id for row in self._rows} else self._named(label)

    def name_of(self, label: str) -> str:
        """Return the name of the label with this id, or the argument if there is none."""
        return next((row.name for row in self._rows if row.gmail_label_id == label), label)

    @cached_property
    def _rows(self) -> list[MailLabel]:
        return list(MailLabel.objects.filter(account_id=self._account_id).order_by("pk"))

    def _named(self, name: str) -> str | None:
        found = next((row for row in self._rows if _is_called(row, name)), None)
        return None if found is None else str(found.gmail_label_id)

    def _id_of_own(self, label: str) -> str:
        return self.find(label) or label

    def _id_of_firms(self, label: str) -> str:
        if label.upper() in GMAIL_LABELS:
            return label.upper()
        # An empty id for a label that the mailbox lacks: no message has a label with an empty id.
        return self._named(firm_label_name(label)) or ""


def choosable_labels(account: MailAccount) -> list[MailLabel]:
    """Return the labels of the mailbox that a model may choose, by name.

    Gmail's and Mailroom's own labels are left out, because they move messages, and start other
    work.
    """
    rows = MailLabel.objects.filter(account=account, key="", available_to_classifier=True)
    # The pause label and the label of snoozed messages have no key, so they are left out by name.
    return [row for row in rows.order_by("name", "pk") if not is_own_label(row.name)]


def label_called(name: str, labels: Sequence[MailLabel]) -> MailLabel | None:
    """Return the label of exactly this name, else one of this name in another case."""
    exact = (label for label in labels if label.name == name)
    in_any_case = (label for label in labels if label.name.casefold() == name.casefold())
    return next(exact, None) or next(in_any_case, None)


def _is_called(row: MailLabel, name: str) -> bool:
    """Say whether a label has this name in any case, or is Mailroom's own label of this name."""
    wanted = name.casefold()
    return row.name.casefold() == wanted or (bool(row.key) and row.key == KEYS.get(wanted))


def firm_label_name(label: str) -> str:
    """Return the name for which a label in a firm's rule stands."""
    if not USER_LABEL_ID.fullmatch(label):
        return label
    found = _stands_for(label)
    return _everywhere(found[0]) if found else label


def is_lost(label: str, account_id: UUID, gone: Collection[str]) -> bool:
    """Say whether a label in a firm's rule is lost when the mailbox loses the labels `gone`.

    `gone` are their ids; the labels are still stored.
    """
    found = _stands_for(label)
    return bool(found) and all(
        row.account_id == account_id and row.gmail_label_id in gone for row in found
    )


def _stands_for(label: str) -> list[MailLabel]:
    rows = MailLabel.objects.order_by("pk")
    if USER_LABEL_ID.fullmatch(label):
        return list(rows.filter(gmail_label_id=label)[:1])
    return [row for row in rows if _is_called(row, label)]


def named_conditions(conditions: Any, account_id: UUID | None) -> Any:
    """Return a rule's stored conditions with the names of labels, as people write them."""
    try:
        condition = parse_conditions(conditions)
    except ConditionsInvalid:
        return conditions
    name_of = firm_label_name if account_id is None else MailboxLabels(account_id).name_of

    def named(label: str, _: str) -> str:
        return label.upper() if label.upper() in GMAIL_LABELS else name_of(label)

    return with_labels(condition, named).model_dump(mode="json")


def with_stored_labels(condition: Group | Leaf, account_id: UUID | None) -> Group | Leaf:
    """Return conditions with labels as a rule of the mailbox, or of the whole firm, stores them.

    Raises:
        ConditionsInvalid: a label is not one of the mailbox, or of any mailbox of the firm.
    """
    faults: list[dict[str, str]] = []
    own = None if account_id is None else MailboxLabels(account_id)

    def stored(label: str, field: str) -> str:
        try:
            return _stored_label(label, own)
        except ValueError as error:
            faults.append(fault(field, str(error)))
            return label

    checked = with_labels(condition, stored)
    if faults:
        raise ConditionsInvalid(faults)
    return checked


def with_label_names(actions: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the actions of a firm's rule with names instead of label ids.

    Raises:
        RuleInvalid: an id belongs to no label, or to different ones.
    """
    named, faults = [], []
    for index, one in enumerate(actions):
        parameters = one["parameters"]
        if USER_LABEL_ID.fullmatch(parameters.get("label", "")):
            try:
                parameters = {**parameters, "label": _stored_label(parameters["label"], None)}
            except ValueError as error:
                faults.append(fault(f"actions.{index}", str(error)))
        named.append({**one, "parameters": parameters})
    if faults:
        raise RuleInvalid(faults)
    return named


def _stored_label(label: str, own: MailboxLabels | None) -> str:
    """Return a label as a rule stores it; `own` are its mailbox's labels, None for a firm's rule.

    Raises:
        ValueError: there is no such label, or several have the id.
    """
    if own is not None:
        found = own.find(label)
        if found is None:
            raise ValueError(f"“{label}” is no label of the mailbox")
        return found
    if label.upper() in GMAIL_LABELS:
        return label.upper()
    rows = list(MailLabel.objects.order_by("pk"))
    called = [row for row in rows if _is_called(row, label)]
    called = called or [row for row in rows if row.gmail_label_id == label]
    names = {_everywhere(row).casefold(): _everywhere(row) for row in called}
    if not names:
        raise ValueError(f"“{label}” is no label of any mailbox of the firm")
    if len(names) > 1:
        raise ValueError(f"“{label}” is the id of different labels; write the name")
    return next(iter(names.values()))


def _everywhere(row: MailLabel) -> str:
    """Return the name that such a label has in every mailbox, even if people have renamed it."""
    return LABEL_NAMES[LabelKey(row.key)] if row.key else str(row.name)
