"""A label that an undo puts back is Mailroom's change, even if Gmail's answer was lost."""

from __future__ import annotations

from typing import Any

import pytest

from mail.gmail.simulator.faults import LOST_ANSWER
from mail.labels import LabelKey
from mail.models import Action, Decision
from tests.mail.action_kit import ask_undo, current
from tests.mail.draft_kit import asked, give_label, prepared, state_labels, synced
from tests.mail.mail_kit import Mailbox, drain, jobs, stored, without_drafts
from tests.queue_kit import later

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-16", "M-19")]


def undo_under_way(mailbox: Mailbox) -> tuple[str, Any]:
    """Let an undo put Needs Response back, and lose Gmail's answer; return message and undo."""
    arrived = asked(without_drafts_in(mailbox))
    give_label(mailbox, arrived, LabelKey.FYI)
    synced(mailbox)
    (removal,) = [one for one in stored(Action) if one.action_type == "remove_label"]
    undo = ask_undo(mailbox, removal)
    mailbox.simulator.order_fault(LOST_ANSWER, method="messages.modify")
    drain()
    assert current(undo).status == "executing"
    assert LabelKey.NEEDS_RESPONSE in state_labels(mailbox, arrived)
    return arrived, undo


def without_drafts_in(mailbox: Mailbox) -> Mailbox:
    without_drafts(prepared(mailbox))
    return mailbox


def decided() -> list[tuple[str, str]]:
    return [(row.source, row.category) for row in stored(Decision)]


def test_it_is_no_order_while_the_undo_is_under_way(mailbox: Mailbox) -> None:
    _, undo = undo_under_way(mailbox)
    synced(mailbox)
    with later(3600):
        drain()
    assert current(undo).status == "completed"
    assert jobs("manual_draft", live=False) == []
    assert decided() == [("offline", "needs_response"), ("person", "fyi")]


def test_another_label_meanwhile_is_the_persons(mailbox: Mailbox) -> None:
    arrived, _ = undo_under_way(mailbox)
    give_label(mailbox, arrived, LabelKey.WAITING)
    synced(mailbox)
    assert decided()[-1] == ("person", "waiting")
