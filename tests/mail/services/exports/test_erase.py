"""An erased person is in no table any more, and a later sync does not store their mail again."""

from __future__ import annotations

import json
import re
from typing import Any
from uuid import uuid4

import pytest
from django.db import DatabaseError, connection
from django.utils import timezone

from jobs.engine.lease import JobLease
from jobs.errors import LeaseLost, Retryable
from jobs.models import JobQueue
from jobs.queue import cancel, enqueue
from jobs.testing import drain, run_job
from mail.errors import FaultyInput, ReasonMissing, WrongState
from mail.job_handlers import exports as handlers
from mail.models import (
    MAX_ADDRESS_LENGTH,
    AgentRun,
    DataRequest,
    Direction,
    ExportPart,
    MailAccount,
    MailThread,
    Message,
    OutboundMessage,
    RequestKind,
    RequestStatus,
    SuppressionList,
)
from mail.services.exports import erase, find_subject, subjects
from mail.services.exports.erase import Step, erase_step
from mail.services.exports.requests import request_data
from mail.services.exports.subjects import checked_address, pattern_of
from mail.services.mailboxes import erase_mail as erase_mail_module
from mail.services.mailboxes.connect_account import disconnect_account
from mail.services.mailboxes.erase_mail import erase_mail
from mail.services.queueing import request_sync
from tenants.audit import SERVICE, Actor, record_operation
from tenants.models import AuditEntry, Firm, Role
from tenants.scope import all_firms, firm_scope
from tests.factories.tenants import UserFactory
from tests.mail.mail_kit import ANNA, OWNER, Mailbox, jobs, letter, only, stored
from tests.mail.send_kit import answer
from tests.mail.services.exports.export_kit import ANNA_ADDRESS, again, done, requested

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("U-05")]

CANARY = "zanzibar-4711"


def mentions(*words: str) -> list[str]:
    """Return every column of every table that has one of the words, whatever its type."""
    found = set()
    with all_firms("test"), connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f'SELECT * FROM "{table}"')
            names = [column[0] for column in cursor.description]
            for row in cursor.fetchall():
                for name, value in zip(names, row, strict=True):
                    content = bytes(value) if isinstance(value, memoryview) else value
                    text = str(content).lower()
                    if any(word.lower() in text for word in words):
                        found.add(f"{table}.{name}")
    return sorted(found)


def write_everywhere(mailbox: Mailbox) -> None:
    """Let the person appear in mail, in rules, in jobs, and in records of what people did."""
    mailbox.receive(letter(f"Order {CANARY}", f"It is {CANARY}.", message_id="<1@x.example>"))
    mailbox.receive(
        letter(
            "Re: Order", f"> It is {CANARY}.", sender=OWNER, to=ANNA, reply_to_id="<1@x.example>"
        ),
        labels=("SENT",),
    )
    mailbox.receive(
        letter("Who is she?", f"Ask Anna@Customer.Example: {CANARY}", sender="b@x.example")
    )
    mailbox.receive(letter("Lunch", "Today?", sender="bob@x.example"))
    mailbox.receive(letter("Namesake", f"From jo{ANNA_ADDRESS}", sender="bob@x.example"))
    mailbox.store_all()
    drain()
    firm = mailbox.firm
    with firm_scope(firm):
        Direction.objects.create(
            scope="sender", scope_ref=ANNA_ADDRESS, text=f"{ANNA_ADDRESS}: now"
        )
        target = ("direction", ANNA_ADDRESS)
        record_operation(
            SERVICE, "direction.create", firm_id=firm.pk, target=target,
            reason=f"for {ANNA_ADDRESS}", after={"scope_ref": ANNA_ADDRESS},
        )  # fmt: skip
    mail = {"to": [ANNA_ADDRESS], "subject": "Hello", "body": "Hello"}
    enqueue("email_send", mail, firm=firm)
    drain()
    enqueue("email_send", mail, firm=firm, delay=3600, idempotency_key=f"hello:{ANNA_ADDRESS}")


@pytest.mark.parametrize("address", ["zoë@shop.example", "jo..hn@shop.example", "root@intranet"])
def test_whoever_writes_can_be_erased_whatever_their_address(
    mailbox: Mailbox, address: str
) -> None:
    raw = letter(f"Order {CANARY}", "Is it ready?", sender="PLACE").replace(
        b"PLACE", f"Zoe <{address}>".encode()
    )
    mailbox.receive(raw)
    mailbox.receive(letter("Who?", f"Ask {address}: {CANARY}", sender="bob@x.example"))
    mailbox.store_all()
    drain()
    assert address in {message.sender_address for message in mailbox.messages()}
    request = done(mailbox.firm, RequestKind.ERASE_SUBJECT, address)
    assert again(request).status == RequestStatus.DONE
    assert mentions(address, CANARY) == []


def test_an_address_is_found_in_json_whatever_is_written_before_it(mailbox: Mailbox) -> None:
    befores = ["", "\n", "\t", '"', "\\", "\u00a0", "\uff1a", "宛先"]
    with firm_scope(mailbox.firm):
        for number, before in enumerate(befores):
            steps = [{"text": f"Her address:{before}{ANNA_ADDRESS}", f"\n{ANNA_ADDRESS}": number}]
            AgentRun.objects.create(account=mailbox.account, job_id=uuid4(), steps=steps)
    export = done(mailbox.firm, RequestKind.GDPR_EXPORT, ANNA_ADDRESS)
    assert again(export).counts["mail_agentrun"] == len(befores)
    request = done(mailbox.firm, RequestKind.ERASE_SUBJECT, ANNA_ADDRESS)
    assert again(request).counts["mail_agentrun"] == len(befores)
    assert mentions(ANNA_ADDRESS) == []


@pytest.mark.skipif(connection.vendor != "sqlite", reason="PostgreSQL's JSON holds no NUL")
def test_an_address_after_a_nul_in_json_is_found(mailbox: Mailbox) -> None:
    with firm_scope(mailbox.firm):
        run = AgentRun.objects.create(account=mailbox.account, job_id=uuid4(), steps=[])
        # As a program that writes the table by itself may store it.
        written = json.dumps([{"text": f"Her address:\0{ANNA_ADDRESS}", f"\0{ANNA_ADDRESS}": 1}])
        with connection.cursor() as cursor:
            cursor.execute(
                "UPDATE mail_agentrun SET steps = %s WHERE id = %s", [written, run.pk.hex]
            )
    request = done(mailbox.firm, RequestKind.ERASE_SUBJECT, ANNA_ADDRESS)
    assert again(request).counts["mail_agentrun"] == 1
    assert mentions(ANNA_ADDRESS) == []


def test_addresses_that_begin_or_end_like_the_erased_one_stay(mailbox: Mailbox) -> None:
    namesakes = [f"é{ANNA_ADDRESS}", f"{ANNA_ADDRESS}é", f"\nn{ANNA_ADDRESS}", f"x.{ANNA_ADDRESS}"]
    with firm_scope(mailbox.firm):
        for one in namesakes:
            steps = [{"text": f"It is {one}"}]
            AgentRun.objects.create(account=mailbox.account, job_id=uuid4(), steps=steps)
    request = done(mailbox.firm, RequestKind.ERASE_SUBJECT, ANNA_ADDRESS)
    assert (again(request).status, again(request).counts) == (RequestStatus.DONE, {})
    kept = [run.steps[0]["text"] for run in stored(AgentRun)]
    assert kept == [f"It is {one}" for one in namesakes]


def test_a_row_in_which_the_database_alone_sees_the_person_ends_no_erasure(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    with firm_scope(mailbox.firm):
        Direction.objects.create(text=f"As for jo{ANNA_ADDRESS}")
    found = subjects._expression
    monkeypatch.setattr(subjects, "_expression", re.escape)
    monkeypatch.setattr(erase, "pattern_of", lambda address: re.compile(found(address)))
    request = done(mailbox.firm, RequestKind.ERASE_SUBJECT, ANNA_ADDRESS)
    assert again(request).status == RequestStatus.DONE
    assert only(stored(Direction)).text == f"As for jo{ANNA_ADDRESS}"


def test_the_case_of_other_letters_than_ascii_makes_no_difference(mailbox: Mailbox) -> None:
    for sender in ("Élodie@Société.example", "élodie@sociÉtÉ.example"):
        mailbox.receive(
            letter(f"Order {CANARY}", sender="PLACE").replace(b"PLACE", f"<{sender}>".encode())
        )
    mailbox.receive(letter("Who?", f"Ask Élodie@Société.example: {CANARY}", sender="b@x.example"))
    mailbox.store_all()
    drain()
    request = done(mailbox.firm, RequestKind.ERASE_SUBJECT, "élodie@société.example")
    assert again(request).status == RequestStatus.DONE
    assert mentions("lodie@soci", CANARY) == []


@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite uses Python's cases")
def test_the_case_makes_no_difference_to_a_database_that_knows_that_of_ascii_alone(
    firm: Firm,
) -> None:
    question = """SELECT 'Ask ÉLODIE@SOCIÉTÉ.example' COLLATE "C" ~* %s"""
    with connection.cursor() as cursor:
        cursor.execute(question, [pattern_of("élodie@société.example").pattern])
        assert cursor.fetchone() == (True,)


@pytest.mark.parametrize(
    ("asked", "subject"),
    [(RequestKind.FIRM_EXPORT, ""), (RequestKind.GDPR_EXPORT, ANNA_ADDRESS)],
)
def test_what_was_to_be_exported_is_not_erased(
    mailbox: Mailbox, asked: RequestKind, subject: str
) -> None:
    mailbox.receive()
    mailbox.store_all()
    drain()
    request = done(mailbox.firm, asked, subject)
    by_hand = enqueue("erase_subject", {"request_id": request.pk}, firm=mailbox.firm)
    assert run_job(by_hand.job_id).status == "canceled"
    assert len(mailbox.messages()) == 1
    assert again(request).status == RequestStatus.READY


@pytest.mark.parametrize("kind", [RequestKind.FIRM_EXPORT, RequestKind.GDPR_EXPORT])
def test_an_erasure_is_not_exported(mailbox: Mailbox, kind: RequestKind) -> None:
    request = requested(mailbox.firm, RequestKind.ERASE_SUBJECT, ANNA_ADDRESS)
    by_hand = enqueue(kind.value, {"request_id": request.pk}, firm=mailbox.firm)
    assert run_job(by_hand.job_id).status == "canceled"
    assert again(request).status == RequestStatus.RUNNING


def test_an_erasure_whose_job_was_canceled_is_not_begun_by_another(mailbox: Mailbox) -> None:
    mailbox.receive()
    mailbox.store_all()
    drain()
    request = requested(mailbox.firm, RequestKind.ERASE_SUBJECT, ANNA_ADDRESS)
    with firm_scope(mailbox.firm):
        cancel(JobQueue.objects.get(pk=request.job_id))
    by_hand = enqueue("erase_subject", {"request_id": request.pk}, firm=mailbox.firm)
    assert run_job(by_hand.job_id).status == "canceled"
    assert len(mailbox.messages()) == 1


def test_no_column_of_any_table_mentions_an_erased_person(mailbox: Mailbox) -> None:
    write_everywhere(mailbox)
    assert len(mentions(ANNA_ADDRESS)) > 8
    request = done(mailbox.firm, RequestKind.ERASE_SUBJECT, ANNA_ADDRESS)
    assert again(request).status == RequestStatus.DONE
    assert again(request).subject == ""
    # These columns still match another person, whose address has the same ending.
    kept = {"mail_message.text", "mail_message.snippet"}
    assert set(mentions(f"{ANNA_ADDRESS}", CANARY)) <= kept
    subjects = {message.subject for message in mailbox.messages()}
    assert subjects == {"Lunch", "Namesake"}
    assert {thread.subject for thread in stored(MailThread)} == subjects
    assert f"jo{ANNA_ADDRESS}" in only(mailbox.messages(), subject="Namesake").text


def test_the_audit_log_keeps_who_when_and_which_operation(mailbox: Mailbox) -> None:
    write_everywhere(mailbox)
    before = {entry.pk: entry for entry in stored(AuditEntry)}
    user = UserFactory(username="boss", member_of=mailbox.firm, member_of__role=Role.ADMIN)
    reason = f"{ANNA_ADDRESS} asked for it"
    request_data(
        mailbox.firm, RequestKind.ERASE_SUBJECT, subject=ANNA_ADDRESS, reason=reason,
        by=Actor("api", user),
    )  # fmt: skip
    drain()
    entries = stored(AuditEntry)
    (asked,) = [entry for entry in entries if entry.act == "subject.erase"]
    (ended,) = [entry for entry in entries if entry.act == "subject.erased"]
    assert (asked.actor_name, asked.reason) == ("boss", "the subject asked for it")
    assert ended.after["rows"] > 0
    (erased,) = [entry for entry in entries if entry.act == "direction.create"]
    old = before[erased.pk]
    assert (erased.created_at, erased.actor_name, erased.door) == (
        old.created_at,
        "service",
        "service",
    )
    assert (erased.reason, erased.before, erased.after) == ("", {}, {"erased": True})
    assert erased.target_id == ""


@pytest.mark.req("T-05")
@pytest.mark.parametrize(
    "change",
    [
        {"reason": "another"},
        {"reason": "", "before": {}, "after": {"erased": True}, "act": "another"},
        {"reason": "", "before": {}, "after": {"erased": True}, "actor_name": "another"},
        {"reason": "", "before": {}, "after": {"erased": True}, "target_id": "another"},
    ],
)
def test_the_audit_log_takes_no_other_change(firm: Firm, change: dict[str, Any]) -> None:
    record_operation(SERVICE, "test", firm_id=firm.pk, target=("row", "1"), after={"a": 1})
    with pytest.raises(DatabaseError, match="append-only"), firm_scope(firm):
        AuditEntry.objects.update(**change)


def test_a_later_sync_does_not_take_an_erased_person_in_again(mailbox: Mailbox) -> None:
    write_everywhere(mailbox)
    done(mailbox.firm, RequestKind.ERASE_SUBJECT, ANNA_ADDRESS)
    mailbox.receive(letter(f"New from her: {CANARY}"))
    mailbox.receive(letter("New about her", f"{CANARY}: {ANNA_ADDRESS}", sender="b@x.example"))
    mailbox.receive(letter("Something else", "Nothing", sender="b@x.example"))
    with firm_scope(mailbox.firm):
        request_sync(mailbox.account, force_full=True)
    drain()
    subjects = {message.subject for message in mailbox.messages()}
    assert subjects == {"Lunch", "Namesake", "Something else"}
    assert not {name for name in mentions(CANARY) if not name.startswith("mail_message.")}
    (row,) = stored(SuppressionList)
    assert ANNA_ADDRESS not in str(row.digests)
    assert len(row.digests) == 1


def test_another_firm_keeps_its_mail(mailbox: Mailbox, other_firm: Firm) -> None:
    write_everywhere(mailbox)
    done(other_firm, RequestKind.ERASE_SUBJECT, ANNA_ADDRESS)
    assert len(mailbox.messages()) == 5
    mailbox.receive(letter("Again"))
    assert len(mailbox.store_all()) == 6


def test_zips_that_contain_the_person_are_deleted(mailbox: Mailbox) -> None:
    write_everywhere(mailbox)
    export = done(mailbox.firm, RequestKind.FIRM_EXPORT)
    hers = done(mailbox.firm, RequestKind.GDPR_EXPORT, ANNA_ADDRESS)
    assert stored(ExportPart)
    done(mailbox.firm, RequestKind.ERASE_SUBJECT, ANNA_ADDRESS)
    assert stored(ExportPart) == []
    assert again(export).status == again(hers).status == RequestStatus.EXPIRED
    assert again(hers).subject == ""


def test_an_erasure_that_is_interrupted_after_each_step_goes_on(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_everywhere(mailbox)

    def interrupted(request_id: Any, lease: JobLease) -> Step:
        if not (step := erase_step(request_id, lease)).is_over:
            raise Retryable("interrupted", retry_after=0)
        return step

    monkeypatch.setattr(handlers, "erase_step", interrupted)
    request = done(mailbox.firm, RequestKind.ERASE_SUBJECT, ANNA_ADDRESS)
    assert again(request).status == RequestStatus.DONE
    assert set(mentions(ANNA_ADDRESS)) <= {"mail_message.text", "mail_message.snippet"}
    job = only(jobs("erase_subject", live=False), job_id=request.job_id)
    assert job.result["rows"] == sum(again(request).counts.values())


def test_each_step_reads_only_some_rows_of_a_large_table(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A step is a transaction that keeps the firm's mailboxes locked.
    monkeypatch.setattr(find_subject, "READ_AT_ONCE", 3)
    monkeypatch.setattr(find_subject, "READING_SECONDS", -1.0)
    for number in range(10):
        mailbox.receive(letter(f"Note {number}", sender=f"bob-{number}@elsewhere.example"))
    mailbox.receive(letter("Lunch"))
    ids = [str(message.pk) for message in sorted(mailbox.store_all(), key=lambda one: one.pk)]
    reached: list[str | None] = []

    def noted(request_id: Any, lease: JobLease) -> Step:
        step = erase_step(request_id, lease)
        position = again(only(stored(DataRequest))).position
        if position.get("table") == "mail_message" and position["pass"] == 1:
            reached.append(position["after"])
        return step

    monkeypatch.setattr(handlers, "erase_step", noted)
    done(mailbox.firm, RequestKind.ERASE_SUBJECT, ANNA_ADDRESS)
    # Gmail lists the newest message first, so hers is stored first.
    assert reached == [ids[0], ids[3], ids[6], ids[9]]
    assert {str(message.pk) for message in mailbox.messages()} == set(ids[1:])


@pytest.mark.req("J-09")
def test_an_attempt_that_lost_its_lease_erases_nothing(mailbox: Mailbox) -> None:
    write_everywhere(mailbox)
    request = requested(mailbox.firm, RequestKind.ERASE_SUBJECT, ANNA_ADDRESS)
    with pytest.raises(LeaseLost):
        erase_step(request.pk, JobLease(request.job_id, mailbox.firm.pk, 1))  # type: ignore[arg-type]  # set
    assert len(stored(Message)) == 5


def test_who_had_a_mailbox_is_erased_once_its_mail_is_deleted(mailbox: Mailbox) -> None:
    def ask() -> None:
        request_data(
            mailbox.firm, RequestKind.ERASE_SUBJECT, subject=OWNER, reason="left", by=SERVICE
        )

    mailbox.receive()
    mailbox.store_all()
    disconnect_account(mailbox.account, keep_days=1, reason="left")
    with pytest.raises(WrongState, match="mailbox"):
        ask()
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(delete_mail_at=timezone.now())
    erase_mail(mailbox.account.pk, mailbox.firm.pk)
    ask()
    drain()
    assert mentions(OWNER) == []
    assert OWNER not in mailbox.reload().address


def test_an_answer_that_a_job_stores_while_the_mail_of_a_mailbox_is_deleted_goes_too(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrived = mailbox.receive()
    mailbox.store_all()
    disconnect_account(mailbox.account, keep_days=0, reason="left")
    of_account = erase_mail_module._of_account

    def late(model: type[Any], account_id: Any) -> Any:
        if model is Message and mailbox.messages():
            answer(mailbox, arrived)
        return of_account(model, account_id)

    monkeypatch.setattr(erase_mail_module, "_of_account", late)
    erase_mail(mailbox.account.pk, mailbox.firm.pk)
    assert stored(Message) == []
    assert stored(OutboundMessage) == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "ada",
        "ada@",
        "@shop.example",
        "ada@shop@example",
        "ada@shop.example, bob@shop.example",
        "ada@shop.example,bob",
        "bob,ada@shop.example",
        "ada@shop.example;",
        "Ada <ada@shop.example>",
        "ada@shop.example\x00",
        f"{'a' * MAX_ADDRESS_LENGTH}@shop.example",
    ],
)
def test_what_is_no_address_is_nobodys(text: str) -> None:
    with pytest.raises(FaultyInput, match="is not an e-mail address"):
        checked_address(text)


def test_what_cannot_be_erased_is_refused(mailbox: Mailbox) -> None:
    UserFactory(username="member", email="ada@acme.example", member_of=mailbox.firm)

    def ask(subject: str, reason: str = "because") -> None:
        request_data(
            mailbox.firm, RequestKind.ERASE_SUBJECT, subject=subject, reason=reason, by=SERVICE
        )

    with firm_scope(mailbox.firm):
        MailAccount.objects.update(aliases=["sales@acme.example", "zoë@acme.example"])
    for address in (OWNER, "sales@acme.example", "Zoë@acme.example"):
        with pytest.raises(WrongState, match="mailbox"):
            ask(address)
    with pytest.raises(WrongState, match="member"):
        ask("Ada@acme.example")
    with pytest.raises(FaultyInput, match="subject"):
        ask("anna")
    with pytest.raises(ReasonMissing):
        ask(ANNA_ADDRESS, " ")
    assert jobs("erase_subject", live=False) == []
    assert stored(SuppressionList) == []
