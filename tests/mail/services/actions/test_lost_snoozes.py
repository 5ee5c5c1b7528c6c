"""Mail whose snooze was deleted returns when its mailbox does, or after its writer's erasure."""

from __future__ import annotations

from typing import Any

import pytest

from jobs.engine.clock import database_now
from jobs.testing import assert_idempotent, frozen_time, run_job
from mail.gmail.simulator.faults import LOST_ANSWER
from mail.models import (
    Action,
    Connection,
    EventType,
    MailAccount,
    MailEvent,
    Mode,
    PausedBy,
    RequestKind,
    RequestStatus,
)
from mail.services.actions import lost_snoozes
from mail.services.actions import snooze as snoozing
from mail.services.mailboxes.accounts import open_account
from mail.services.mailboxes.connect_account import (
    Consent,
    connect_account,
    disconnect_account,
)
from mail.services.mailboxes.credentials import store_grant
from mail.services.mailboxes.erase_mail import erase_mail
from mail.services.mailboxes.modes import pause_mailbox, resume_writing
from tenants.audit import SERVICE
from tenants.models import Firm
from tenants.scope import firm_scope
from tests.mail.action_kit import ask, done, in_gmail, received, run
from tests.mail.google_kit import granted
from tests.mail.mail_kit import Mailbox, drain, jobs, stored
from tests.mail.services.exports.export_kit import ANNA_ADDRESS, again, requested
from tests.mail.services.exports.export_kit import done as request_done

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-17", "M-24")]

SNOOZED = {"UNREAD", "Mailroom/Snoozed"}
BACK = {"UNREAD", "INBOX"}
AN_HOUR = {"amount": 1, "units": "hours"}


def disconnect(mailbox: Mailbox, *, keep_days: int = 0) -> None:
    disconnect_account(mailbox.reload(), keep_days=keep_days)
    drain()


def connect_again(mailbox: Mailbox) -> None:
    """Connect the mailbox again as suggest-only, so that only wakes change labels."""
    grant = granted(mailbox.account.address)
    with firm_scope(mailbox.firm):
        MailAccount.objects.filter(pk=mailbox.account.pk).update(mode=Mode.SUGGEST)
        consent = Consent(grant, mailbox.account.address, [])
        connect_account(mailbox.firm.pk, consent, by=SERVICE)
    drain()


def later(hours: float) -> None:
    with frozen_time(database_now()) as clock:
        clock.tick(hours=hours)
        drain()


def test_it_comes_back_when_the_mailbox_does(connected: Mailbox) -> None:
    arrived, archived = received(connected), received(connected, "UNREAD")
    done(connected, arrived, "snooze", **AN_HOUR)
    assert connected.labels(arrived) == SNOOZED
    disconnect(connected)
    assert stored(Action) == []

    connect_again(connected)

    assert connected.labels(arrived) == BACK
    assert connected.labels(archived) == {"UNREAD"}
    (event,) = [row for row in stored(MailEvent) if row.event_type == EventType.UNSNOOZED]
    assert event.detail == {"messages": 1}


def test_its_history_says_so_if_it_is_stored_again_by_then(connected: Mailbox) -> None:
    arrived = received(connected)
    done(connected, arrived, "snooze", **AN_HOUR)
    disconnect(connected)
    pause_mailbox(connected.reload())
    connect_again(connected)
    connected.store_all()
    resume_writing(connected.reload())
    later(1)

    assert connected.labels(arrived) == BACK
    told = [row for row in stored(MailEvent) if row.event_type == EventType.UNSNOOZED]
    message = connected.message(arrived)
    assert [(row.message_id, row.thread_id) for row in told] == [
        (message.pk, message.thread_id),
        (None, None),
    ]


def test_a_snooze_that_is_still_there_keeps_its_time(connected: Mailbox) -> None:
    arrived = received(connected)
    done(connected, arrived, "snooze", **AN_HOUR)
    disconnect(connected, keep_days=30)
    connect_again(connected)
    assert connected.labels(arrived) == SNOOZED
    later(2)
    assert connected.labels(arrived) == BACK


@pytest.mark.parametrize(("keep_days", "labels"), [(None, SNOOZED), (30, BACK)])
def test_the_snooze_of_another_firm_that_has_the_mailbox_keeps_its_time(
    connected: Mailbox, other_firm: Firm, keep_days: int | None, labels: set[str]
) -> None:
    """If the other firm's mailbox is disconnected, too, the message returns at once."""
    account = open_account(other_firm, connected.account.address)
    with firm_scope(other_firm):
        store_grant(account, granted(account.address))
    theirs = Mailbox(other_firm, account, connected.simulator)
    disconnect(connected)
    arrived = received(theirs)
    done(theirs, arrived, "snooze", **AN_HOUR)
    if keep_days is not None:
        disconnect(theirs, keep_days=keep_days)

    connect_again(connected)

    assert connected.labels(arrived) == labels
    if keep_days is None:
        later(2)
        assert connected.labels(arrived) == BACK


@pytest.mark.parametrize("where", ["TRASH", "SPAM"])
def test_what_the_person_threw_away_stays_there(connected: Mailbox, where: str) -> None:
    arrived = received(connected)
    done(connected, arrived, "snooze", **AN_HOUR)
    disconnect_account(connected.reload(), keep_days=0)
    in_gmail(connected, arrived, add=where)
    drain()
    connect_again(connected)
    assert "INBOX" not in connected.labels(arrived)


def test_more_than_a_page_of_it(connected: Mailbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lost_snoozes, "PAGE", 2)
    several = [received(connected) for _ in range(5)]
    for arrived in several:
        done(connected, arrived, "snooze", **AN_HOUR)
    disconnect(connected)
    connect_again(connected)
    assert [connected.labels(arrived) for arrived in several] == [BACK] * 5


def test_a_paused_mailbox_has_it_back_when_it_is_resumed(connected: Mailbox) -> None:
    arrived = received(connected)
    done(connected, arrived, "snooze", **AN_HOUR)
    pause_mailbox(connected.account)
    disconnect(connected)
    connect_again(connected)
    assert connected.reload().paused_by == PausedBy.SWITCH
    assert connected.labels(arrived) == SNOOZED
    resume_writing(connected.account)
    later(1)
    assert connected.labels(arrived) == BACK


@pytest.mark.req("J-27")
def test_a_worker_that_dies_and_an_answer_that_is_lost(connected: Mailbox) -> None:
    first, second = received(connected), received(connected)
    done(connected, first, "snooze", **AN_HOUR)
    done(connected, second, "snooze", **AN_HOUR)
    disconnect_account(connected.reload(), keep_days=0)
    erase_mail(connected.account.pk, connected.firm.pk)
    connected.simulator.order_fault(LOST_ANSWER, method="messages.batchModify")
    connect_again(connected)
    later(1)
    assert (connected.labels(first), connected.labels(second)) == (BACK, BACK)

    in_gmail(connected, first, add=label_id(connected), remove="INBOX")
    assert_idempotent(
        "unsnooze.lost.gmail",
        {"account_id": connected.account.pk},
        firm=connected.firm,
        snapshot=lambda: connected.labels(first),
    )
    assert connected.labels(first) == BACK


def label_id(mailbox: Mailbox) -> str:
    (found,) = [
        row["id"] for row in mailbox.gmail.list_labels() if row["name"] == "Mailroom/Snoozed"
    ]
    return found


def erased(mailbox: Mailbox) -> None:
    request = request_done(mailbox.firm, RequestKind.ERASE_SUBJECT, ANNA_ADDRESS)
    assert again(request).status == RequestStatus.DONE
    drain()


@pytest.mark.req("U-05")
def test_it_comes_back_when_who_wrote_it_is_erased(connected: Mailbox) -> None:
    hers, archived = received(connected), received(connected, "UNREAD")
    others = received(connected, sender="bob@x.example")
    done(connected, hers, "snooze", **AN_HOUR)
    done(connected, others, "snooze", **AN_HOUR)

    erased(connected)

    assert [message.gmail_message_id for message in connected.messages()] == [others]
    assert connected.labels(hers) == BACK
    assert connected.labels(archived) == {"UNREAD"}
    assert connected.labels(others) == SNOOZED
    later(2)
    assert connected.labels(others) == BACK


@pytest.mark.req("U-05")
def test_of_a_mailbox_that_must_wait_it_comes_back_once_it_need_not(connected: Mailbox) -> None:
    hers = received(connected)
    done(connected, hers, "snooze", **AN_HOUR)
    with firm_scope(connected.firm):
        MailAccount.objects.update(connection=Connection.NEEDS_REAUTH)
    erased(connected)
    assert connected.messages() == []
    assert connected.labels(hers) == SNOOZED
    with firm_scope(connected.firm):
        MailAccount.objects.update(connection=Connection.CONNECTED)
    later(1)
    assert connected.labels(hers) == BACK


@pytest.mark.req("U-05")
def test_what_is_being_hidden_is_erased_once_it_is(
    connected: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    hers = received(connected)
    snooze = ask(connected, hers, "snooze", **AN_HOUR)
    start, stored_then = snoozing._start, []

    def erase_meanwhile(*args: Any) -> Any:
        started = start(*args)
        erase_step_of(connected)
        stored_then.extend(connected.messages())
        return started

    monkeypatch.setattr(snoozing, "_start", erase_meanwhile)
    assert run(snooze).status == "completed"
    assert [message.gmail_message_id for message in stored_then] == [hers]
    assert connected.labels(hers) == SNOOZED

    later(1)
    assert connected.messages() == []
    assert connected.labels(hers) == BACK


def erase_step_of(mailbox: Mailbox) -> None:
    """Ask for Anna's erasure, and run the part of it that can run now."""
    request = requested(mailbox.firm, RequestKind.ERASE_SUBJECT, ANNA_ADDRESS)
    run_job(request.job_id)
    (job,) = jobs("erase_subject")
    assert (job.status, job.last_error) == ("pending", "")
