"""Labels: made once, found again, kept in line with Gmail."""

from __future__ import annotations

import pytest

from mail.gmail.simulator.faults import Fault
from mail.labels import LABEL_NAMES, LabelKey
from mail.models import MailLabel
from mail.services.syncing.labels import ensure_label, ensure_own_labels, refresh_labels
from tests.mail.mail_kit import Mailbox, stored

pytestmark = pytest.mark.django_db


@pytest.mark.req("M-07")
def test_the_nine_labels_are_made_once(mailbox: Mailbox) -> None:
    first = ensure_own_labels(mailbox.account, mailbox.gmail)
    assert ensure_own_labels(mailbox.account, mailbox.gmail) == first
    made = [label["name"] for label in mailbox.gmail.list_labels() if label.get("type") == "user"]
    assert sorted(made) == sorted(LABEL_NAMES.values())
    assert {label.key for label in stored(MailLabel)} == set(LabelKey)


@pytest.mark.req("M-07")
def test_labels_that_exist_already_are_used(mailbox: Mailbox) -> None:
    name = LABEL_NAMES[LabelKey.FYI]
    label_id = mailbox.gmail.create_label(name)["id"]
    assert ensure_own_labels(mailbox.account, mailbox.gmail)[LabelKey.FYI] == label_id


@pytest.mark.req("M-07")
def test_a_label_somebody_else_makes_meanwhile_is_taken(mailbox: Mailbox) -> None:
    gmail = mailbox.gmail
    create = gmail.create_label

    def create_second(name: str) -> object:
        create(name)
        return create(name)

    gmail.create_label = create_second
    label_id = ensure_label(mailbox.account, gmail, "Projects")
    assert label_id in {label["id"] for label in gmail.list_labels()}


@pytest.mark.req("M-07")
def test_own_labels_keep_their_meaning_when_people_rename_them(mailbox: Mailbox) -> None:
    label_id = ensure_own_labels(mailbox.account, mailbox.gmail)[LabelKey.WAITING]
    labels = mailbox.gmail._resources.labels
    mailbox.gmail._execute(labels.patch(userId="me", id=label_id, body={"name": "Čeká"}))
    refresh_labels(mailbox.account, mailbox.gmail)
    found = ensure_label(mailbox.account, mailbox.gmail, LABEL_NAMES[LabelKey.WAITING])
    assert found == label_id


@pytest.mark.req("M-07")
def test_deleted_labels_are_forgotten(mailbox: Mailbox) -> None:
    label_id = ensure_label(mailbox.account, mailbox.gmail, "Projects")
    labels = mailbox.gmail._resources.labels
    mailbox.gmail._execute(labels.delete(userId="me", id=label_id))
    refresh_labels(mailbox.account, mailbox.gmail)
    assert stored(MailLabel) == []


@pytest.mark.req("M-07")
def test_a_known_label_costs_no_request(mailbox: Mailbox) -> None:
    label_id = ensure_label(mailbox.account, mailbox.gmail, "Projects")
    mailbox.simulator.order_fault(Fault(status=500))
    assert ensure_label(mailbox.account, mailbox.gmail, "projects") == label_id
    assert ensure_label(mailbox.account, mailbox.gmail, "INBOX") == "INBOX"
