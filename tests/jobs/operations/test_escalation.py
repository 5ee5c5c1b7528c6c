"""Who is told of an escalated dead letter, what the mail says, and what if nobody is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest
from django.core import mail
from django.urls import reverse

from jobs.errors import WrongState
from jobs.models import DeadLetterQueue, JobQueue
from jobs.operations import dead_letters
from jobs.testing import run_job
from tenants.models import Firm, Role
from tenants.scope import all_firms, firm_scope
from tests.factories.jobs import DeadLetterQueueFactory, JobQueueFactory
from tests.factories.tenants import UserFactory

pytestmark = [pytest.mark.req("D-02"), pytest.mark.django_db]


def member(firm: Firm, name: str, role: Role = Role.ADMIN, **columns: Any) -> Any:
    """Return a new member, who has an address unless `columns` says otherwise."""
    columns = {"email": f"{name}@example.org", **columns}
    return UserFactory(username=name, **columns, member_of=firm, member_of__role=role)


def notify() -> int:
    """Run the job of the only escalation; return how many people its mail went to."""
    with all_firms("test"):
        waiting = JobQueue.objects.get(job_type="escalation_notice")
    job = run_job(waiting)
    assert job.status == "completed"
    recipients: int = job.result["recipients"]
    return recipients


def refusal(act: Callable[[], object]) -> str:
    """Return the refusal's text without the name and the id of the dead letter."""
    with pytest.raises(WrongState) as refused:
        act()
    return str(refused.value).split(maxsplit=3)[3]


@pytest.fixture
def letter(firm: Firm) -> DeadLetterQueue:
    """Return an open dead letter of a job with contents that no mail may show."""
    dead = JobQueueFactory(
        firm=firm, status="dlq", payload={"body": "canary of the mail"}, last_error="canary"
    )
    return DeadLetterQueueFactory(
        original_job=dead, error_class="ValueError", error="canary of the error"
    )


def test_the_firms_admins_are_told_where_to_look_and_nothing_of_the_payload(
    firm: Firm, other_firm: Firm, letter: DeadLetterQueue
) -> None:
    member(firm, "ann")
    member(firm, "ben")
    member(firm, "off", is_active=False)
    member(firm, "dev", Role.DEVELOPER)
    member(other_firm, "eve")
    dead_letters.escalate(letter, "a customer waits")
    assert notify() == 2
    (sent,) = mail.outbox
    assert sorted(sent.to) == ["ann@example.org", "ben@example.org"]
    page = reverse("admin:jobs_deadletterqueue_change", args=[letter.pk])
    for said in (page, str(letter.pk), str(letter.original_job_id), "a customer waits", firm.name):
        assert said in sent.body
    assert "canary" not in sent.body + sent.subject


def test_an_assignee_alone_is_told(firm: Firm, letter: DeadLetterQueue) -> None:
    member(firm, "ann")
    dead_letters.escalate(letter, "look", to=member(firm, "ben", Role.VIEWER))
    notify()
    assert [sent.to for sent in mail.outbox] == [["ben@example.org"]]


@pytest.mark.parametrize("assigned", [False, True], ids=["admins", "assignee"])
def test_platform_staff_is_told_where_nobody_of_the_firm_has_an_address(
    firm: Firm, other_firm: Firm, letter: DeadLetterQueue, *, assigned: bool
) -> None:
    member(other_firm, "eve")
    member(firm, "off", is_active=False)
    mute = member(firm, "mute", email="")
    UserFactory(username="root", email="root@example.org", platform_staff=True)
    dead_letters.escalate(letter, "look", to=mute if assigned else None)
    assert notify() == 1
    assert [sent.to for sent in mail.outbox] == [["root@example.org"]]


def test_an_escalation_that_tells_nobody_stands(firm: Firm, letter: DeadLetterQueue) -> None:
    member(firm, "mute", email="")
    dead_letters.escalate(letter, "look")
    assert notify() == 0
    with all_firms("test"):
        letter.refresh_from_db()
    assert (letter.resolution, mail.outbox) == ("escalated", [])


def test_a_notice_of_a_letter_that_is_gone_is_no_mail(firm: Firm) -> None:
    job = run_job("escalation_notice", {"dead_letter_id": uuid4()}, firm=firm)
    assert job.status == "dlq"
    assert "no longer exists" in job.last_error
    assert mail.outbox == []


@pytest.mark.parametrize("named", [True, False])
def test_a_second_escalation_is_told_whom_the_first_asked(
    firm: Firm, letter: DeadLetterQueue, named: bool
) -> None:
    ben = member(firm, "ben")
    dead_letters.escalate(letter, "look", to=ben if named else None)
    whom = "ben" if named else "the firm's admins"
    said = f"was escalated already, to {whom}: reprocess or discard it"
    assert refusal(lambda: dead_letters.escalate(letter, "not ben", to=member(firm, "cy"))) == said
    with firm_scope(firm):
        letter.refresh_from_db()
        assert (letter.resolution_note, letter.assigned_to) == ("look", ben if named else None)


@pytest.mark.parametrize("act", ["reprocess", "discard", "escalate"])
@pytest.mark.parametrize("decision", ["reprocessed", "discarded"])
def test_a_refusal_says_what_was_decided_and_by_whom(
    firm: Firm, letter: DeadLetterQueue, act: str, decision: str
) -> None:
    ann = member(firm, "ann")
    dead_letters.escalate(letter, "look")
    if decision == "discarded":
        dead_letters.discard(letter, "no use", by=ann)
    else:
        dead_letters.reprocess(letter, by=ann)
    reason = [] if act == "reprocess" else ["again"]
    said = refusal(lambda: getattr(dead_letters, act)(letter, *reason))
    assert said == f"was {decision} already, by ann"


def test_a_decision_by_nobody_known_names_nobody(firm: Firm, letter: DeadLetterQueue) -> None:
    dead_letters.discard(letter, "no use")
    assert refusal(lambda: dead_letters.discard(letter, "again")) == "was discarded already"
