"""An approval does exactly what was asked, once; the audit log has each attempt to decide."""

from __future__ import annotations

import smtplib
import threading
from datetime import timedelta
from email import message_from_bytes, policy
from typing import Any
from uuid import UUID

import pytest
from django.core import mail as django_mail
from django.core.mail import EmailMessage
from django.core.mail.backends.locmem import EmailBackend
from django.db import connection
from django.utils import timezone

from jobs.operations.deletion import delete_firm
from jobs.queue import enqueue
from jobs.testing import run_job
from mail.errors import WrongState
from mail.models import (
    Action,
    ActionType,
    Approval,
    EventType,
    MailAccount,
    MailEvent,
    Message,
    OutboundMessage,
)
from mail.services.actions.actions import request_action
from mail.services.actions.sweep import sweep_actions
from mail.services.approvals import approvals
from mail.services.approvals.approvals import approve, ask_approval, expire_approvals, reject
from mail.services.mailboxes.briefing import briefing_of
from mail.services.sending.outbound_operations import cancel_outbound, send_again
from mail.services.syncing.ingest import ingest_page
from tenants.audit import Actor
from tenants.models import Firm, Role
from tenants.scope import firm_scope
from tests.mail.approval_kit import audited, outbound_of, person, reread, waiting
from tests.mail.mail_kit import Mailbox, drain, jobs, letter, only, stored
from tests.mail.send_kit import at_once, current, sent
from tests.queue_kit import later

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-14")]


@pytest.fixture
def box(mailbox: Mailbox) -> Mailbox:
    return at_once(mailbox)


def waiting_action(box: Mailbox) -> Approval:
    arrived = box.receive()
    box.store_all()
    drain()
    with firm_scope(box.firm):
        action = Action.objects.create(
            account=box.account,
            message=box.message(arrived),
            action_type=ActionType.TRASH,
            status="approved_pending",
        )
        return ask_approval(action=action, reasons=["asked_by_model"])


def test_nothing_is_sent_before_the_yes_and_once_after(box: Mailbox) -> None:
    approval, ada = waiting(box), person(box)
    drain()
    assert sent(box) == []
    assert not approve(approval, by=ada, reason="I know her").refused
    assert approve(approval, by=ada).refused == "This is already approved by ada@acme.example"
    drain()
    assert len(sent(box)) == 1
    assert audited(approval) == [
        ("approval.approved", "ada@acme.example"),
        ("approval.approve_refused", "ada@acme.example"),
    ]
    done = reread(approval)
    assert (done.status, done.decided_via) == ("approved", "admin")
    events = [row.event_type for row in stored(MailEvent) if "approval_id" in row.detail]
    assert events == [EventType.APPROVAL_ASKED, EventType.APPROVED]


def test_a_job_enqueued_by_hand_before_the_yes_does_not_take_its_place(box: Mailbox) -> None:
    approval = waiting(box)
    early = {"account_id": box.account.pk, "outbound_id": approval.outbound_id}
    with firm_scope(box.firm):
        enqueue("outbound.send", early)
        enqueue("outbound.send", early | {"release": 2})
    drain()
    assert sent(box) == []
    approve(approval, by=person(box))
    drain()
    assert (outbound_of(approval).status, len(sent(box))) == ("sent", 1)


def test_a_rejection_is_final(box: Mailbox) -> None:
    approval, ada = waiting(box), person(box)
    assert not reject(approval, by=ada).refused
    assert approve(approval, by=ada).refused
    drain()
    outbound = outbound_of(approval)
    assert (outbound.status, outbound.error, sent(box)) == ("rejected", "", [])
    assert [act for act, _ in audited(approval)] == [
        "approval.rejected",
        "approval.approve_refused",
    ]


def test_an_action_is_executed_after_the_yes(box: Mailbox) -> None:
    approval = waiting_action(box)
    (message,) = box.messages()
    drain()
    assert "INBOX" in box.labels(message.gmail_message_id)
    approve(approval, by=person(box))
    drain()
    assert only(stored(Action), pk=approval.action_id).status == "completed"
    assert "TRASH" in box.labels(message.gmail_message_id)


def test_what_nobody_answers_ends_by_itself(box: Mailbox) -> None:
    approval = waiting_action(box)
    assert expire_approvals() == 0
    over(approval)
    assert expire_approvals() == 1
    assert expire_approvals() == 0
    assert reread(approval).status == "expired"
    action = only(stored(Action), pk=approval.action_id)
    assert (action.status, action.error) == ("rejected", "Nobody approved it in time")
    assert approve(approval, by=person(box)).refused
    assert [act for act, _ in audited(approval)] == [
        "approval.expired",
        "approval.approve_refused",
    ]


def test_a_yes_that_comes_too_late_has_no_effect(box: Mailbox) -> None:
    approval = waiting(box)
    over(approval)
    assert approve(approval, by=person(box)).refused == "Nobody approved it in time"
    drain()
    assert (reread(approval).status, sent(box)) == ("expired", [])
    assert [act for act, _ in audited(approval)] == [
        "approval.expired",
        "approval.approve_refused",
    ]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("to", [{"name": "", "address": "eve@else.example"}]),
        ("subject", "Another subject"),
        ("text", "Another text"),
        ("attachments", [{"message_id": "x", "part_id": "1", "filename": "a", "mime_type": "a/b"}]),
    ],
)
def test_a_yes_to_what_has_changed_since_has_no_effect(
    box: Mailbox, column: str, value: Any
) -> None:
    approval = waiting(box)
    with firm_scope(box.firm):
        OutboundMessage.objects.update(**{column: value})
    assert approve(approval, by=person(box)).refused == "What was asked has changed since; ask anew"
    drain()
    assert (reread(approval).status, outbound_of(approval).status) == ("canceled", "rejected")
    assert sent(box) == []
    assert [act for act, _ in audited(approval)] == [
        "approval.canceled",
        "approval.approve_refused",
    ]


def test_a_yes_to_other_parameters_has_no_effect(box: Mailbox) -> None:
    approval = waiting_action(box)
    with firm_scope(box.firm):
        Action.objects.filter(pk=approval.action_id).update(parameters={"permanently": True})
    assert approve(approval, by=person(box)).refused
    assert only(stored(Action), pk=approval.action_id).status == "rejected"


@pytest.mark.req("M-23")
def test_only_an_operator_who_may_read_the_mailbox_decides(box: Mailbox) -> None:
    approval = waiting(box)
    viewer = person(box, Role.VIEWER, "vera@acme.example")
    ada = person(box)
    assert approve(approval, by=viewer).refused
    with firm_scope(box.firm):
        MailAccount.objects.update(shared=False)
    assert approve(approval, by=ada).refused
    assert reread(approval).status == "pending"
    assert len(audited(approval)) == 2


def test_of_two_at_the_same_moment_one_has_an_effect(box: Mailbox) -> None:
    approval, ada = waiting(box), person(box)
    bob = person(box, name="bob@acme.example")
    decided: list[Any] = []
    start = threading.Barrier(2)

    def decide(actor: Actor) -> None:
        start.wait()
        decided.append(approve(approval, by=actor))
        connection.close()

    threads = [threading.Thread(target=decide, args=(actor,)) for actor in (ada, bob)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(bool(one.refused) for one in decided) == [False, True]
    drain()
    assert len(sent(box)) == 1


def test_who_cancels_at_the_same_moment_is_heard(
    box: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    approval, ada = waiting(box), person(box)
    outbound, locked = outbound_of(approval), approvals._locked

    def canceled_meanwhile(approval_id: UUID) -> Approval | None:
        found = locked(approval_id)
        cancel_outbound(outbound, reason="Not this one")
        return found

    monkeypatch.setattr(approvals, "_locked", canceled_meanwhile)
    assert approve(approval, by=ada).refused == "What was asked has changed since; ask anew"
    drain()
    assert (outbound_of(approval).status, sent(box)) == ("canceled", [])


def test_those_who_may_decide_are_asked_once(box: Mailbox) -> None:
    deciding = [
        person(box, role, f"{role}@acme.example")
        for role in (Role.OPERATOR, Role.DEVELOPER, Role.ADMIN)
    ]
    person(box, Role.VIEWER, "vera@acme.example")
    approval = waiting(box)
    drain()
    assert [asked.to for asked in django_mail.outbox] == [[one.name] for one in deciding]
    for asked in django_mail.outbox:
        assert "anna@customer.example" in asked.body
        assert f"/approvals/{box.firm.pk}.{approval.pk.hex}." in asked.body
    (job,) = jobs("approval.notify", live=False)
    assert job.result == {"recipients": 3, "discord": False}


def test_an_address_that_is_refused_keeps_the_question_from_nobody(
    box: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = [person(box, name=f"{name}@acme.example") for name in ("ada", "gone", "zoe")]
    send = EmailBackend.send_messages

    def unless_gone(backend: EmailBackend, messages: list[EmailMessage]) -> int:
        if messages[0].to == ["gone@acme.example"]:
            raise smtplib.SMTPRecipientsRefused({"gone@acme.example": (450, b"greylisted")})
        return send(backend, messages)

    monkeypatch.setattr(EmailBackend, "send_messages", unless_gone)
    approval = waiting(box)
    drain()
    assert [one.to for one in django_mail.outbox] == [[people[0].name], [people[2].name]]
    assert reread(approval).notified_at is not None
    monkeypatch.setattr(EmailBackend, "send_messages", send)
    with later(3600):
        drain()
    assert [one.to[0] for one in django_mail.outbox] == [
        "ada@acme.example", "zoe@acme.example", "gone@acme.example",
    ]  # fmt: skip


@pytest.mark.req("M-23")
@pytest.mark.parametrize("role", [Role.OPERATOR, Role.VIEWER])
def test_the_owner_alone_is_asked_about_a_mailbox_of_their_own(box: Mailbox, role: Role) -> None:
    person(box)
    owner = person(box, role, "owner@acme.example")
    with firm_scope(box.firm):
        MailAccount.objects.update(shared=False, owner=owner.user)
    waiting(box)
    drain()
    assert [one.to for one in django_mail.outbox] == [["owner@acme.example"]]


def test_our_own_notice_is_never_read_as_mail(box: Mailbox) -> None:
    person(box)
    waiting(box)
    drain()
    (asked,) = django_mail.outbox
    before = len(box.messages())
    arrived = box.receive(asked.message().as_bytes())
    box.store_all()
    assert ingest_page(box.account, box.gmail, [arrived])["skipped"] == 1
    assert len(box.messages()) == before


@pytest.mark.parametrize(
    "change",
    [
        lambda copy: copy.replace_header("X-Mailroom-Notice", "0123:forged"),
        lambda copy: copy.replace_header("Subject", "Your invoice"),
        lambda copy: copy.set_payload(copy.get_payload() + "\nPay by Friday.\n"),
        lambda copy: (copy.make_mixed(), copy.add_attachment("1,2", subtype="csv")),
        lambda copy: copy.add_alternative("<p>Pay by Friday.</p>", subtype="html"),
    ],
    ids=["mark", "subject", "text", "file", "html"],
)
def test_the_mark_of_a_notice_hides_no_other_mail(box: Mailbox, change: Any) -> None:
    person(box)
    waiting(box)
    drain()
    (asked,) = django_mail.outbox
    before = len(box.messages())
    copy = message_from_bytes(asked.message().as_bytes(), policy=policy.default)
    change(copy)
    box.receive(copy.as_bytes())
    box.store_all()
    assert len(box.messages()) == before + 1


def over(approval: Approval) -> None:
    """Let the approval expire."""
    with firm_scope(approval.firm_id):
        Approval.objects.update(expires_at=timezone.now() - timedelta(seconds=1))


def test_of_two_questions_the_one_that_was_told_is_noted(box: Mailbox) -> None:
    first = waiting_action(box)
    with firm_scope(box.firm):
        action = Action.objects.create(
            account=box.account,
            message=first.message,
            action_type=ActionType.ARCHIVE,
            status="approved_pending",
        )
        second = ask_approval(action=action)
    (job, _) = jobs("approval.notify")
    assert run_job(job).status == "completed"
    noted = {one.pk for one in stored(Approval) if one.notified_at is not None}
    assert noted == {UUID(job.payload["approval_id"])} < {first.pk, second.pk}


def test_a_message_canceled_meanwhile_is_not_sent_by_a_yes(box: Mailbox) -> None:
    approval = waiting(box)
    cancel_outbound(outbound_of(approval))
    assert approve(approval, by=person(box)).refused
    drain()
    assert (current(outbound_of(approval)).status, sent(box)) == ("canceled", [])


def waiting_forward(box: Mailbox) -> Approval:
    """Ask for approval of an action that sends a message."""
    # This mail differs from other tests' mail, because Gmail would store equal mail only once.
    arrived = box.receive(letter("To be forwarded"))
    box.store_all()
    drain()
    with firm_scope(box.firm):
        request_action(box.message(arrived), ActionType.FORWARD, {"to": ["eve@else.example"]})
    approval: Approval = only(stored(Approval))
    return approval


def test_what_nobody_approved_cannot_be_canceled_and_sent_again(box: Mailbox) -> None:
    outbound = outbound_of(waiting_forward(box))
    cancel_outbound(outbound)
    with pytest.raises(WrongState, match="Nobody has approved the message"):
        send_again(outbound, reason="I changed my mind")
    drain()
    assert (current(outbound).status, sent(box)) == ("canceled", [])


def test_what_was_approved_can_be_canceled_and_sent_again(box: Mailbox) -> None:
    approval = waiting(box)
    approve(approval, by=person(box))
    cancel_outbound(outbound_of(approval))
    send_again(outbound_of(approval), reason="I changed my mind")
    drain()
    assert (outbound_of(approval).status, len(sent(box))) == ("sent", 1)


def test_a_message_that_is_canceled_takes_its_question_along(box: Mailbox) -> None:
    ada = person(box)
    approval = waiting_forward(box)
    cancel_outbound(outbound_of(approval), by=ada, reason="Not to her")
    over = reread(approval)
    assert (over.status, over.decided_by) == ("canceled", "ada@acme.example")
    assert only(stored(Action), pk=approval.action_id).status == "canceled"
    assert audited(approval) == [("approval.canceled", "ada@acme.example")]
    drain()
    # No e-mail about the approval had been sent, and none is sent now.
    assert django_mail.outbox == []
    with firm_scope(box.firm):
        assert briefing_of(box.account).approvals.count == 0


def test_a_message_that_is_canceled_leaves_other_questions_open(box: Mailbox) -> None:
    approval, other = waiting_forward(box), waiting(box)
    cancel_outbound(outbound_of(approval))
    assert (reread(approval).status, reread(other).status) == ("canceled", "pending")


def test_a_message_whose_question_was_deleted_with_its_mail_does_not_wait_for_ever(
    box: Mailbox,
) -> None:
    approval = waiting_forward(box)
    kept = waiting(box)
    outbound = outbound_of(approval)
    assert sweep_actions()["canceled"] == 0
    with firm_scope(box.firm):
        Message.objects.filter(pk=approval.message_id).delete()
    assert sweep_actions()["canceled"] == 1
    done = current(outbound)
    assert done.status == "canceled"
    assert done.error == "The mail it was about was deleted before anybody approved it"
    assert outbound_of(kept).status == "approved_pending"
    with pytest.raises(WrongState):
        send_again(done, reason="All the same")


@pytest.mark.req("T-04")
def test_a_firm_is_deleted_with_its_questions(box: Mailbox) -> None:
    waiting_forward(box)
    waiting(box)
    delete_firm(box.firm, "closed")
    drain()
    assert not Firm.objects.filter(pk=box.firm.pk).exists()
