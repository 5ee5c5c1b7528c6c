"""What the person does in Gmail, step by step, and where each step leads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone

from mail.labels import LABEL_NAMES, LabelKey
from mail.models import Action, EventType, MailAccount, MailEvent
from mail.services.mailboxes.modes import pause_mailbox, resume_writing
from tenants.scope import firm_scope
from tests.mail.draft_kit import (
    answer_by_hand,
    asked,
    edit,
    give_label,
    listed,
    order,
    prepared,
    state_labels,
    synced,
    the_thread,
    versions,
)
from tests.mail.mail_kit import Mailbox, letter, stored, without_drafts

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-19")]

Step = Callable[[Mailbox, str], object]


def send(mailbox: Mailbox, _: str) -> None:
    mailbox.gmail.send_draft(listed(mailbox)[0]["id"])


def discard(mailbox: Mailbox, _: str) -> None:
    mailbox.gmail.delete_draft(listed(mailbox)[0]["id"])


def discard_without_history(mailbox: Mailbox, arrived: str) -> None:
    discard(mailbox, arrived)
    mailbox.simulator.expire_history(mailbox.account.address)


def bin_it(mailbox: Mailbox, _: str) -> None:
    mailbox.gmail.trash(listed(mailbox)[0]["message"]["id"])


def change(mailbox: Mailbox, _: str) -> None:
    edit(mailbox, "My own words.")


def answer(mailbox: Mailbox, _: str) -> None:
    answer_by_hand(mailbox)


def done(mailbox: Mailbox, arrived: str) -> None:
    give_label(mailbox, arrived, LabelKey.DONE)


def rework(mailbox: Mailbox, arrived: str) -> None:
    order(mailbox, "Shorter, please.")
    give_label(mailbox, arrived, LabelKey.REWORK)


def needs_response(mailbox: Mailbox, arrived: str) -> None:
    give_label(mailbox, arrived, LabelKey.NEEDS_RESPONSE)


def another(mailbox: Mailbox, _: str) -> None:
    # A Date has no fractions of a second; a second is added, so that it is not before the mail just
    # sent.
    later = datetime.now(UTC) + timedelta(seconds=1)
    text = "Well? Could you send it?"
    mailbox.receive(letter("Re: Price list", text, reply_to_id="<q1@customer.example>", at=later))


@dataclass(frozen=True)
class Case:
    """Steps after a draft was written, and the state that they lead to."""

    steps: tuple[Step, ...]
    status: str
    versions: tuple[str, ...]
    drafts: int
    labels: frozenset[LabelKey] = frozenset()
    event: EventType | None = None


OUTBOX = frozenset({LabelKey.OUTBOX})
LEFT = frozenset({LabelKey.ACTION_REQUIRED})
CASES = {
    "nothing": Case((), "drafted", ("ready",), 1, OUTBOX, EventType.DRAFT_CREATED),
    "edited": Case((change,), "drafted", ("ready",), 1, OUTBOX),
    "sent": Case((send,), "sent", ("sent",), 0, frozenset({LabelKey.WAITING}),
                 EventType.SENT_DETECTED),
    "edited and sent": Case((change, send), "sent", ("sent",), 0,
                            frozenset({LabelKey.WAITING}), EventType.SENT_DETECTED),
    "discarded": Case((discard,), "skipped", ("discarded",), 0, event=EventType.DRAFT_DISCARDED),
    "discarded, history lost": Case((discard_without_history,), "skipped", ("discarded",), 0,
                                    event=EventType.DRAFT_DISCARDED),
    "binned": Case((bin_it,), "skipped", ("discarded",), 0, event=EventType.DRAFT_DISCARDED),
    "edited and discarded": Case((change, discard), "skipped", ("discarded",), 0,
                                 event=EventType.DRAFT_DISCARDED),
    "answered otherwise": Case((answer,), "sent", ("withdrawn",), 0,
                               frozenset({LabelKey.WAITING}), EventType.DRAFT_WITHDRAWN),
    "answered otherwise, edited": Case((change, answer), "sent", ("ready",), 1,
                                       frozenset({LabelKey.WAITING}), EventType.DRAFT_KEPT),
    "done": Case((done,), "archived", ("ready",), 1, frozenset({LabelKey.DONE}),
                 EventType.ARCHIVED),
    "done and asked again": Case((done, another), "drafted", ("withdrawn", "ready"), 1,
                                 frozenset({LabelKey.DONE})),
    "reworked": Case((rework,), "drafted", ("replaced", "ready"), 1, OUTBOX,
                     EventType.DRAFT_REWORKED),
    "reworked three times": Case((rework,) * 3, "drafted", ("replaced",) * 3 + ("ready",), 1,
                                 LEFT, EventType.DRAFT_REWORKED),
    "reworked four times": Case((rework,) * 4, "skipped", ("replaced",) * 3 + ("ready",), 1,
                                LEFT, EventType.REWORK_LIMIT),
    "sent and asked again": Case((send, another), "drafted", ("sent", "ready"), 1,
                                 event=EventType.WAITING_RETRIAGED),
    "sent, asked again, discarded": Case((send, another, discard), "skipped",
                                         ("sent", "discarded"), 0,
                                         event=EventType.DRAFT_DISCARDED),
    "discarded and wanted again": Case((discard, needs_response), "drafted",
                                       ("discarded", "ready"), 1, OUTBOX),
    "drafted and wanted again": Case((needs_response,), "drafted", ("ready",), 1, OUTBOX),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_where_each_step_leads(mailbox: Mailbox, case: Case) -> None:
    arrived = asked(prepared(mailbox))
    for step in case.steps:
        step(mailbox, arrived)
        synced(mailbox)
    assert the_thread().status == case.status
    assert tuple(status for _, status, _ in versions()) == case.versions
    assert len(listed(mailbox)) == case.drafts
    if case.labels:
        assert state_labels(mailbox, arrived) - {LabelKey.PARENT} == case.labels
    if case.event is not None:
        assert case.event in [event.event_type for event in stored(MailEvent)]
    jobs_before = len(versions())
    synced(mailbox)
    assert len(versions()) == jobs_before


@pytest.mark.req("M-24")
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_pause_leaves_it_where_it_is(mailbox: Mailbox, case: Case) -> None:
    arrived = asked(prepared(mailbox))
    for step in case.steps:
        step(mailbox, arrived)
        synced(mailbox)
    before = state_labels(mailbox, arrived), the_thread().status, versions()
    pause_mailbox(mailbox.account)
    synced(mailbox)
    resume_writing(mailbox.reload())
    synced(mailbox)
    assert (state_labels(mailbox, arrived), the_thread().status, versions()) == before


def test_an_own_label_that_a_late_sync_sees_is_no_order(mailbox: Mailbox) -> None:
    without_drafts(prepared(mailbox))
    arrived = asked(mailbox)
    assert state_labels(mailbox, arrived) == {LabelKey.NEEDS_RESPONSE}
    labelled = timezone.now() - timedelta(minutes=16)
    with firm_scope(mailbox.firm):
        Action.objects.update(executed_at=labelled)
        MailAccount.objects.update(last_sync_at=labelled - timedelta(minutes=1))

    synced(mailbox)

    assert versions() == []
    assert state_labels(mailbox, arrived) == {LabelKey.NEEDS_RESPONSE}


def test_a_label_put_back_after_a_sync_is_an_order(mailbox: Mailbox) -> None:
    without_drafts(prepared(mailbox))
    arrived = asked(mailbox)
    synced(mailbox)
    labels = {one["name"]: one["id"] for one in mailbox.gmail.list_labels()}
    wish = labels[LABEL_NAMES[LabelKey.NEEDS_RESPONSE]]
    with firm_scope(mailbox.firm):
        Action.objects.update(executed_at=timezone.now() - timedelta(minutes=16))
    mailbox.gmail.modify_message(arrived, remove=[wish])
    give_label(mailbox, arrived, LabelKey.NEEDS_RESPONSE)

    synced(mailbox)

    assert versions() == [("manual", "ready", 0)]
