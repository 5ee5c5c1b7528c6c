"""Which draft a late job withdraws, and what becomes of a draft whose job is dead-lettered."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jobs.testing import frozen_time, run_job
from mail.errors import WrongState
from mail.gmail.simulator.faults import LOST_ANSWER, Fault
from mail.labels import LabelKey
from mail.models import Draft
from mail.services.drafting.operations import discard_draft, request_rework
from mail.services.mailboxes.modes import suggest_only
from tests.mail.draft_kit import (
    QUESTION,
    asked,
    finished,
    give_label,
    listed,
    prepared,
    state_labels,
    synced,
    the_thread,
    versions,
)
from tests.mail.mail_kit import Mailbox, drain, drain_later, jobs, letter, stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-19")]


def with_a_dead_rework(mailbox: Mailbox) -> str:
    """Let the rework of a draft fail until its job is dead-lettered."""
    arrived = asked(prepared(mailbox))
    give_label(mailbox, arrived, LabelKey.REWORK)
    for _ in range(5):
        mailbox.simulator.order_fault(Fault(503), method="messages.trash")
    synced(mailbox)
    drain_later(6)
    assert [job.status for job in jobs("rework", live=False)] == ["dlq"]
    assert [status for _, status, _ in versions()] == ["ready", "writing"]
    return arrived


def test_a_newer_question_keeps_its_draft_though_the_one_before_is_withdrawn_late(
    mailbox: Mailbox,
) -> None:
    arrived = asked(prepared(mailbox))
    mailbox.simulator.order_fault(Fault(503), method="drafts.get")
    mailbox.gmail.trash(arrived)
    synced(mailbox)
    assert [job.payload["action"] for job in jobs("cleanup")] == ["withdraw"]
    mailbox.receive(letter("Re: Price list", QUESTION, reply_to_id="<q1@customer.example>"))
    synced(mailbox)
    assert [status for _, status, _ in versions()] == ["withdrawn", "ready"]
    drain_later()
    assert [status for _, status, _ in versions()] == ["withdrawn", "ready"]
    assert len(listed(mailbox)) == 1


@pytest.mark.parametrize("operate", [discard_draft, request_rework])
def test_what_a_mailbox_that_suggests_only_would_not_do_is_refused(
    mailbox: Mailbox, operate: Callable[[Draft], None]
) -> None:
    asked(prepared(mailbox))
    suggest_only(mailbox.account)
    with pytest.raises(WrongState, match="set to suggest only: make it active first"):
        operate(stored(Draft)[0])
    assert [*jobs("cleanup"), *jobs("rework")] == []


def test_a_rework_ordered_after_the_withdrawal_stays(mailbox: Mailbox) -> None:
    arrived = asked(prepared(mailbox))
    mailbox.simulator.order_fault(Fault(503), method="drafts.get")
    discard_draft(stored(Draft)[0])
    drain()
    give_label(mailbox, arrived, LabelKey.REWORK)
    synced(mailbox)
    drain_later()
    assert [status for _, status, _ in versions()] == ["replaced", "ready"]


def test_a_rework_ordered_before_the_withdrawal_is_withdrawn_with_it(mailbox: Mailbox) -> None:
    asked(prepared(mailbox))
    (draft,) = stored(Draft)
    request_rework(draft, instruction="Shorter.")
    discard_draft(draft)
    run_job(jobs("rework")[0])
    drain()
    assert [status for _, status, _ in versions()] == ["replaced", "withdrawn"]
    assert listed(mailbox) == []


def test_a_rework_that_is_to_be_tried_again_is_withdrawn_with_it(mailbox: Mailbox) -> None:
    arrived = asked(prepared(mailbox))
    give_label(mailbox, arrived, LabelKey.REWORK)
    mailbox.simulator.order_fault(Fault(503), method="drafts.create")
    synced(mailbox)
    assert [status for _, status, _ in versions()] == ["replaced", "writing"]
    mailbox.gmail.trash(arrived)
    synced(mailbox)
    drain_later()
    assert [status for _, status, _ in versions()] == ["replaced", "canceled"]
    assert listed(mailbox) == []


def test_two_drafts_of_a_thread_are_withdrawn_each_by_its_own_job(mailbox: Mailbox) -> None:
    arrived = asked(prepared(mailbox))
    mailbox.simulator.order_fault(Fault(503), method="drafts.get")
    discard_draft(stored(Draft)[0])
    drain()
    give_label(mailbox, arrived, LabelKey.REWORK)
    synced(mailbox)
    # The job that withdraws the first draft still waits; it would not withdraw this one.
    discard_draft(stored(Draft)[1])
    drain()
    assert [status for _, status, _ in versions()] == ["replaced", "withdrawn"]


def test_a_job_of_the_version_before_withdraws_what_stands(mailbox: Mailbox) -> None:
    asked(prepared(mailbox))
    (draft,) = stored(Draft)
    about = {"account_id": draft.account_id, "thread_id": draft.thread_id, "action": "withdraw"}
    ran = run_job("cleanup", {**about, "version": "1.0"}, firm=mailbox.firm)
    assert ran.result == {"draft": "withdrawn"}
    assert listed(mailbox) == []


def test_what_may_have_been_written_goes_when_no_answer_is_needed(mailbox: Mailbox) -> None:
    prepared(mailbox)
    mailbox.simulator.order_fault(LOST_ANSWER, method="drafts.create")
    arrived = asked(mailbox)
    assert (len(listed(mailbox)), versions()) == (1, [("automatic", "writing", 0)])
    give_label(mailbox, arrived, LabelKey.FYI)
    synced(mailbox)
    drain_later()
    assert versions() == [("automatic", "canceled", 0)]
    assert listed(mailbox) == []
    assert the_thread().status == "skipped"


def test_what_the_person_noted_for_a_draft_by_hand_is_kept_for_its_next_attempt(
    mailbox: Mailbox,
) -> None:
    arrived = asked(prepared(mailbox), text="The parcel left today.")
    give_label(mailbox, arrived, LabelKey.NEEDS_RESPONSE)
    mailbox.simulator.order_fault(Fault(503), method="drafts.create")
    # The clock stands still, so that the next attempt is not due, however long this takes.
    with frozen_time():
        synced(mailbox)
        assert versions() == [("manual", "writing", 0)]
        again = letter("Re: Price list", "It has arrived.", reply_to_id="<q1@customer.example>")
        mailbox.receive(again)
        synced(mailbox)
    assert finished("cleanup") == []
    assert versions() == [("manual", "writing", 0)]


def test_a_draft_whose_rework_gave_up_is_still_followed(mailbox: Mailbox) -> None:
    arrived = with_a_dead_rework(mailbox)
    mailbox.gmail.send_draft(listed(mailbox)[0]["id"])
    synced(mailbox)
    assert versions()[0] == ("automatic", "sent", 0)
    assert the_thread().status == "sent"
    assert LabelKey.OUTBOX not in state_labels(mailbox, arrived)


def test_a_draft_thrown_away_is_noticed_though_its_rework_gave_up(mailbox: Mailbox) -> None:
    with_a_dead_rework(mailbox)
    mailbox.gmail.trash(listed(mailbox)[0]["message"]["id"])
    synced(mailbox)
    assert versions()[0] == ("automatic", "discarded", 0)
    assert the_thread().status == "skipped"


def test_a_draft_whose_rework_gave_up_is_still_withdrawn(mailbox: Mailbox) -> None:
    arrived = with_a_dead_rework(mailbox)
    mailbox.gmail.trash(arrived)
    synced(mailbox)
    assert [status for _, status, _ in versions()] == ["withdrawn", "canceled"]
    assert listed(mailbox) == []
