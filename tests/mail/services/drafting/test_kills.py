"""One draft is written, even if a worker dies or an answer is lost at any step."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.queue import cancel
from jobs.testing import assert_idempotent, run_job
from mail.gmail.simulator.faults import LOST_ANSWER
from mail.labels import LabelKey
from mail.models import Action, ActionType, Draft
from mail.services.drafting import write_draft
from mail.services.drafting.operations import request_rework
from mail.services.queueing import request_sync
from tenants.scope import firm_scope
from tests.mail.draft_kit import (
    QUESTION,
    asked,
    edit,
    finished,
    give_label,
    in_gmail,
    listed,
    order,
    prepared,
    synced,
    versions,
)
from tests.mail.mail_kit import Mailbox, done_before_a_kill, drain, jobs, letter, stored
from tests.queue_kit import later

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-19")]


class Killed(BaseException):
    """The worker dies here."""


def waiting(mailbox: Mailbox, message_id: str = "<q1@customer.example>") -> Any:
    """Return the draft job of a question, before its first attempt."""
    from mail.services.deciding.classify import classify_thread
    from tests.mail.mail_kit import FixedClassifier

    prepared(mailbox)
    arrived = mailbox.receive(letter("Price list", QUESTION, message_id=message_id))
    mailbox.store_all()
    message = mailbox.message(arrived)
    judging = jobs("classify")[0]
    classify_thread(
        mailbox.account, message.thread_id, message.pk, FixedClassifier(), job_id=judging.pk
    )
    # Cancel or run the other jobs that wait for the thread's lock.
    cancel(judging)
    for action in jobs("action.gmail"):
        run_job(action)
    (job,) = jobs("draft")
    return job


def run_again(mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch, step: str, *, after: bool) -> None:
    """Kill an attempt at a step, before or after it took effect, and make another one."""
    from mail.services.drafting.jobs import draft_answer

    job = waiting(mailbox)
    real = getattr(write_draft, step)

    def dies(*args: Any, **kwargs: Any) -> Any:
        if after:
            real(*args, **kwargs)
        raise Killed

    message = mailbox.messages()[0]
    monkeypatch.setattr(write_draft, step, dies)
    with pytest.raises(Killed):
        draft_answer(
            mailbox.account,
            mailbox.gmail,
            message.thread_id,
            job_id=job.pk,
            is_last_attempt=False,
        )
    monkeypatch.setattr(write_draft, step, real)
    drain()


STEPS = ["compose_draft", "retire", "build_mail", "_write", "_finish"]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_a_kill_at_any_step_leaves_one_draft(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch, step: str, after: bool
) -> None:
    run_again(mailbox, monkeypatch, step, after=after)
    assert len(listed(mailbox)) == 1
    assert versions()[-1] == ("automatic", "ready", 0)
    assert [status for _, status, _ in versions()] == ["ready"]


@pytest.mark.parametrize("message_id", ["<q1@customer.example>", ""], ids=["in thread", "apart"])
def test_an_answer_that_is_lost_makes_no_second_draft(mailbox: Mailbox, message_id: str) -> None:
    # Gmail puts the draft into a thread of its own if the question has no Message-ID.
    job = waiting(mailbox, message_id)
    mailbox.simulator.delay_search(3600)
    mailbox.simulator.order_fault(LOST_ANSWER, method="drafts.create")
    assert run_job(job).status == "pending"
    assert len(listed(mailbox)) == 1
    with later(3600):
        drain()
    assert len(listed(mailbox)) == 1
    (row,) = stored(Draft)
    assert (row.status, row.gmail_draft_id) == ("ready", listed(mailbox)[0]["id"])


def test_what_was_edited_before_the_second_attempt_stays(mailbox: Mailbox) -> None:
    job = waiting(mailbox)
    mailbox.simulator.order_fault(LOST_ANSWER, method="drafts.create")
    run_job(job)
    order(mailbox, "I have begun to write.")
    with later(3600):
        drain()
    (draft,) = in_gmail(mailbox)
    assert "I have begun to write." in draft.get_content()
    assert stored(Draft)[0].edited is True


def test_an_edit_between_the_look_and_the_removal_is_seen(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mail.services.drafting import cleanup

    drain_job = waiting(mailbox)
    run_job(drain_job)
    real = cleanup.trash_unless_edited

    def late(gmail: Any, draft: Any) -> bool:
        edit(mailbox, "In the last moment.")
        return real(gmail, draft)

    monkeypatch.setattr(cleanup, "trash_unless_edited", late)
    with firm_scope(mailbox.firm):
        thread_id = stored(Draft)[0].thread_id
    assert cleanup.withdraw_draft(mailbox.account, mailbox.gmail, thread_id) == {"draft": "kept"}
    (draft,) = in_gmail(mailbox)
    assert draft.get_content().strip() == "In the last moment."


def ordered(mailbox: Mailbox, text: str) -> None:
    """Order a rework of a new draft in Gmail; leave its job to the test."""
    arrived = asked(prepared(mailbox))
    order(mailbox, text)
    give_label(mailbox, arrived, LabelKey.REWORK)
    with firm_scope(mailbox.firm):
        request_sync(mailbox.account)
    run_job(jobs("sync")[0])


def test_a_rework_killed_after_it_wrote_is_not_done_again(mailbox: Mailbox) -> None:
    ordered(mailbox, "Shorter, please.")
    done_before_a_kill("rework")
    with later(3600):
        drain()
    assert versions() == [("automatic", "replaced", 0), ("rework", "ready", 1)]
    assert finished("rework") == [
        {"draft_id": str(stored(Draft)[1].pk), "source": "template", "rework_count": 1}
    ]
    (draft,) = in_gmail(mailbox)
    assert "Shorter, please." in draft.get_content()


def test_an_order_after_a_killed_rework_wrote_is_carried_out(mailbox: Mailbox) -> None:
    ordered(mailbox, "Shorter, please.")
    done_before_a_kill("rework")
    request_rework(stored(Draft)[1], instruction="Friendlier, please.")
    with later(3600):
        drain()
    assert versions()[1:] == [("rework", "replaced", 1), ("rework", "ready", 2)]
    (draft,) = in_gmail(mailbox)
    assert "Friendlier, please." in draft.get_content()


def labelled(mailbox: Mailbox, key: LabelKey) -> str:
    """A thread that wants no answer, to which its owner gives a label that Mailroom has seen."""
    arrived = asked(prepared(mailbox), text="Thank you very much.")
    give_label(mailbox, arrived, key)
    with firm_scope(mailbox.firm):
        request_sync(mailbox.account)
    run_job(jobs("sync")[0])
    return arrived


def test_an_answer_on_request_that_the_person_discards_is_not_written_again(
    mailbox: Mailbox,
) -> None:
    labelled(mailbox, LabelKey.NEEDS_RESPONSE)
    done_before_a_kill("manual_draft")
    mailbox.gmail.delete_draft(listed(mailbox)[0]["id"])
    synced(mailbox)
    with later(3600):
        drain()
    assert versions() == [("manual", "discarded", 0)]
    assert listed(mailbox) == []


def test_a_thread_is_archived_once_though_the_worker_is_killed(mailbox: Mailbox) -> None:
    arrived = labelled(mailbox, LabelKey.DONE)
    done_before_a_kill("cleanup")
    with later(60):
        # Before the jobs of the actions, which wait for the mailbox's rate limit.
        for again in jobs("cleanup"):
            run_job(again)
        drain()
    assert "INBOX" not in mailbox.labels(arrived)
    archives = [one for one in stored(Action) if one.action_type == ActionType.ARCHIVE]
    assert [one.status for one in archives] == ["completed"]


@pytest.mark.req("J-27")
def test_a_draft_job_may_run_twice(mailbox: Mailbox) -> None:
    job = waiting(mailbox)
    assert_idempotent(
        job, firm=mailbox.firm, snapshot=lambda: [one["id"] for one in listed(mailbox)], ignore=[]
    )
