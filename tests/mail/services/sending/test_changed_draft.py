"""The draft of an outbound message is the person's as soon as they change it in Gmail."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from jobs.queue import cancel
from jobs.testing import frozen_time
from mail.gmail.simulator.faults import LOST_ANSWER, Fault
from mail.services.actions.sweep import sweep_actions
from mail.services.sending.outbound_operations import send_again
from tests.mail.action_kit import received
from tests.mail.draft_kit import edit, in_gmail, listed
from tests.mail.interrupted import Steps
from tests.mail.mail_kit import Mailbox, letter
from tests.mail.send_kit import answer, at_once, attempts, current, drafts, forward, sent, written
from tests.mail.services.sending.test_forwarded_files import one_file, stored_mail
from tests.mail.services.sending.test_send_once import HOUR, PROMPT, Sending

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-18")]


@pytest.fixture
def box(mailbox: Mailbox) -> Mailbox:
    """Return a mailbox that sends messages without delay."""
    return at_once(mailbox)


def test_a_draft_that_the_person_changed_is_not_sent(box: Mailbox) -> None:
    outbound = answer(box, received(box), "We accept.")
    box.simulator.order_fault(Fault(status=503), method="drafts.send")
    attempts(outbound, most=1)
    edit(box, "We accept, but on")
    attempts(outbound)
    assert (current(outbound).status, sent(box)) == ("unknown", [])
    assert "changed" in current(outbound).error
    assert [one.get_content().strip() for one in in_gmail(box)] == ["We accept, but on"]
    # If a person asks, the message is sent as it was, and the changed draft stays the person's.
    box.simulator.order_fault(LOST_ANSWER, method="drafts.send")
    send_again(outbound, reason="The text is right as it was.")
    attempts(outbound)
    assert current(outbound).status == "sent"
    assert [one.get_content().strip() for one in sent(box)] == ["We accept."]
    assert [one.get_content().strip() for one in in_gmail(box)] == ["We accept, but on"]


def test_a_worker_that_dies_as_it_leaves_a_draft_to_the_person_leaves_nothing_half_done(
    box: Mailbox,
) -> None:
    arrived = received(box)

    def with_changed_draft() -> Sending:
        outbound = answer(box, arrived, "We accept.")
        box.simulator.order_fault(Fault(status=503), method="drafts.send")
        attempts(outbound, most=1)
        edit(box, "We accept, but on")
        return Sending(box, outbound, PROMPT)

    steps = Steps()
    # The clock stands still, because after five seconds the first message's job would run again and
    # hold the thread's lock.
    with frozen_time():
        with_changed_draft().attempt(steps)
        sending = with_changed_draft()
        assert sending.attempt(Steps(at=steps.count - 1))
        sending.finish()
        assert current(sending.outbound).status == "unknown"
        send_again(sending.outbound, reason="The text is right as it was.")
        attempts(sending.outbound)
    assert (current(sending.outbound).status, len(sent(box))) == ("sent", 1)


def test_a_draft_in_the_trash_is_not_sent(box: Mailbox, settings: Any) -> None:
    settings.SEND_CHECK_SECONDS = 0
    outbound = answer(box, received(box))
    box.simulator.order_fault(Fault(status=503), method="drafts.send")
    attempts(outbound, most=1)
    box.gmail.trash(listed(box)[0]["message"]["id"])
    attempts(outbound)
    assert (current(outbound).status, sent(box)) == ("unknown", [])


def test_a_draft_that_came_back_from_the_trash_is_the_one_that_is_sent_again(
    box: Mailbox, settings: Any
) -> None:
    settings.SEND_CHECK_SECONDS = HOUR
    box.simulator.delay_search(HOUR)
    outbound = answer(box, received(box))
    box.simulator.order_fault(Fault(status=503), method="drafts.send", times=2)
    attempts(outbound, most=1)
    gmail_id = listed(box)[0]["message"]["id"]
    box.gmail.trash(gmail_id)
    attempts(outbound, most=1)
    box.gmail.untrash(gmail_id)
    attempts(outbound, most=1)
    cancel(current(outbound).job_id)
    sweep_actions()
    before = current(outbound)
    assert before.status == "unknown"
    send_again(before, reason="It did not arrive.")
    attempts(outbound)
    done = current(outbound)
    assert (done.status, done.gmail_draft_id, listed(box)) == ("sent", before.gmail_draft_id, [])


def test_a_draft_that_no_attempt_could_note_is_not_touched_once_the_person_changed_it(
    box: Mailbox,
) -> None:
    outbound = answer(box, received(box), "We accept.")
    box.simulator.order_fault(LOST_ANSWER, method="drafts.create")
    attempts(outbound, most=1)
    (one,) = listed(box)
    mail = written(box, one["message"]["id"])
    mail.set_content("We accept, but on")
    # Save the draft as mail programs do that keep every header, also the Message-ID.
    raw = base64.urlsafe_b64encode(mail.as_bytes()).decode()
    update = box.gmail._resources.drafts.update
    box.gmail._execute(update(userId="me", id=one["id"], body={"message": {"raw": raw}}))
    attempts(outbound)
    assert current(outbound).status == "sent"
    assert [one.get_content().strip() for one in sent(box)] == ["We accept."]
    assert [one.get_content().strip() for one in in_gmail(box)] == ["We accept, but on"]


@pytest.mark.parametrize("form", ["text", "html", "both", "files", "whole"])
def test_a_draft_that_no_attempt_could_note_is_used(box: Mailbox, form: str) -> None:
    if form == "files":
        arrived = stored_mail(box, one_file("application/pdf", "plán č. 1.pdf"))
        outbound = forward(box, arrived, "bob@partner.example", note="Hello")
    elif form == "whole":
        arrived = stored_mail(box, letter("Prob. w/ install"))
        outbound = forward(box, arrived, "bob@partner.example", include_original="attachment")
    else:
        forms = {"text": "" if form == "html" else "Hello\n  there"}
        if form != "text":
            forms["html"] = "<p style='color:red'>Hello</p><ul><li>there</ul><script>no</script>"
        outbound = answer(box, received(box), **forms)
    box.simulator.order_fault(LOST_ANSWER, method="drafts.create")
    attempts(outbound, most=1)
    before = listed(box)[0]["id"]
    attempts(outbound)
    done = current(outbound)
    assert (done.status, done.gmail_draft_id, len(sent(box)), drafts(box)) == (
        "sent", before, 1, 0,
    )  # fmt: skip
