"""Watches are set and renewed, and a lapsed watch is noticed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.utils import timezone
from pytest_django import Settings

from jobs.engine.clock import stopped_at
from jobs.engine.outcomes import Completed, DeadLettered, Retry
from jobs.models import Schedule
from jobs.queue import enqueue
from jobs.schedules.defaults import store_default_schedules
from jobs.schedules.tick import tick
from mail.gmail.errors import GmailForbidden
from mail.gmail.simulator.faults import Fault
from mail.labels import LabelKey
from mail.models import Connection, EventType, MailAccount, MailEvent, PushReceipt
from mail.services.queueing import WATCH_TYPE, request_sync, request_watch
from mail.services.syncing.labels import ensure_own_labels
from mail.services.syncing.watch import count_watches, last_push_age, renew_watch
from tenants.models import Firm
from tenants.scope import all_firms, firm_scope
from tests.factories.tenants import UserFactory
from tests.jobs.schedules.kit import MINUTE, START
from tests.mail.mail_kit import Mailbox, drain, jobs, letter, stored
from tests.mail.push_kit import AUDIENCE, SERVICE_ACCOUNT, TOPIC, Pusher
from tests.queue_kit import work_off

pytestmark = [pytest.mark.django_db, pytest.mark.req("M-05")]


def ask(mailbox: Mailbox) -> None:
    with firm_scope(mailbox.firm):
        request_watch(mailbox.account)


def set_account(mailbox: Mailbox, **values: object) -> None:
    with all_firms("test"):
        MailAccount.objects.filter(pk=mailbox.account.pk).update(**values)


def published(mailbox: Mailbox) -> int:
    """Drop the waiting notifications; return how many there were."""
    waiting = len(mailbox.simulator.waiting_pushes())
    mailbox.simulator.deliver_pushes(lose=True)
    return waiting


def test_a_watch_is_set_for_a_week(mailbox: Mailbox, pusher: Pusher) -> None:
    ask(mailbox)
    (job,) = jobs(WATCH_TYPE)
    assert job.lock_key == f"gmail-sync:{mailbox.account.pk}"
    assert [type(outcome) for outcome in drain()] == [Completed]
    expires_at = mailbox.reload().watch_expires_at
    assert expires_at is not None
    assert timedelta(days=6) < expires_at - datetime.now(UTC) <= timedelta(days=7)
    assert mailbox.account.watch_error == ""


def test_what_a_person_asks_by_labels_and_what_they_send_is_published(
    mailbox: Mailbox, pusher: Pusher
) -> None:
    own = ensure_own_labels(mailbox.account, mailbox.gmail)
    renew_watch(mailbox.account, mailbox.gmail)
    mailbox.simulator.subscribe(TOPIC, "", audience=AUDIENCE, service_account=SERVICE_ACCOUNT)
    arrived = mailbox.receive()
    assert published(mailbox) == 1
    mailbox.receive(letter("Sent"), labels=["SENT"])
    assert published(mailbox) == 1
    mailbox.receive(letter("Spam"), labels=["SPAM"])
    assert published(mailbox) == 0
    mailbox.gmail.modify_message(arrived, remove=["INBOX"])
    published(mailbox)
    for key in (LabelKey.NEEDS_RESPONSE, LabelKey.REWORK, LabelKey.DONE):
        mailbox.gmail.modify_message(arrived, add=[own[key]])
        assert published(mailbox) == 1, key
        mailbox.gmail.modify_message(arrived, remove=[own[key]])
        published(mailbox)
    mailbox.gmail.modify_message(arrived, add=[own[LabelKey.FYI]])
    assert published(mailbox) == 0


def test_a_label_that_somebody_deleted_is_no_longer_watched(
    mailbox: Mailbox, pusher: Pusher
) -> None:
    own = ensure_own_labels(mailbox.account, mailbox.gmail)
    labels = mailbox.gmail._resources.labels
    mailbox.gmail._execute(labels.delete(userId="me", id=own[LabelKey.REWORK]))
    assert "expires_at" in renew_watch(mailbox.account, mailbox.gmail)


def test_a_watch_moves_to_the_topic_that_the_settings_name_by_now(
    mailbox: Mailbox, pusher: Pusher, settings: Settings
) -> None:
    renew_watch(mailbox.account, mailbox.gmail)
    settings.GMAIL_PUBSUB_TOPIC = "projects/acme/topics/other"
    ask(mailbox)
    assert [type(outcome) for outcome in drain()] == [Completed]
    for topic in (TOPIC, settings.GMAIL_PUBSUB_TOPIC):
        mailbox.simulator.subscribe(topic, "", audience=AUDIENCE, service_account=SERVICE_ACCOUNT)
    published(mailbox)
    mailbox.receive()
    assert published(mailbox) == 1
    assert mailbox.reload().watch_error == ""


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    ("fault", "remedy"),
    [
        (Fault(403, "forbidden"), "grant its service account (gmail-api-push at"),
        (Fault(404, "notFound"), "create it"),
        (Fault(400, "invalidArgument"), "GOOGLE_CLIENT_ID"),
    ],
)
def test_a_topic_that_gmail_cannot_use_is_named_with_what_to_do(
    mailbox: Mailbox, pusher: Pusher, fault: Fault, remedy: str
) -> None:
    mailbox.simulator.order_fault(fault, method="watch")
    ask(mailbox)
    assert isinstance(work_off(), DeadLettered)
    (job,) = jobs(WATCH_TYPE, live=False)
    for told in (mailbox.reload().watch_error, job.last_error):
        assert "GMAIL_PUBSUB_TOPIC" in told
        assert remedy in told
    # It says nothing of the mailbox, so its page does not blame that.
    assert mailbox.account.last_error == ""


@pytest.mark.parametrize("reason", ["insufficientPermissions", "domainPolicy"])
def test_a_mailbox_that_may_not_be_watched_is_no_fault_of_the_topic(
    mailbox: Mailbox, pusher: Pusher, reason: str
) -> None:
    mailbox.simulator.order_fault(Fault(403, reason), method="watch")
    with pytest.raises(GmailForbidden, match=reason):
        renew_watch(mailbox.account, mailbox.gmail)
    assert reason in mailbox.reload().watch_error


def test_without_a_topic_nothing_is_watched(
    mailbox: Mailbox, pusher: Pusher, settings: Settings
) -> None:
    settings.GMAIL_PUBSUB_TOPIC = ""
    ask(mailbox)
    assert jobs() == []
    assert renew_watch(mailbox.account, mailbox.gmail)["skipped"]
    assert count_watches() == {}


@pytest.mark.django_db(transaction=True)
def test_a_failed_renewal_shows_until_one_succeeds(mailbox: Mailbox, pusher: Pusher) -> None:
    mailbox.simulator.order_fault(Fault(status=503), method="watch", times=2)
    ask(mailbox)
    assert isinstance(work_off(), Retry)
    assert "503" in mailbox.reload().watch_error
    assert count_watches() == {"live": 0, "failed": 1, "lapsed": 1}
    with pytest.raises(Exception, match="503"):
        renew_watch(mailbox.account, mailbox.gmail)
    events = [event.event_type for event in stored(MailEvent)]
    assert events == [EventType.WATCH_FAILED]
    renew_watch(mailbox.account, mailbox.gmail)
    assert mailbox.reload().watch_error == ""
    assert count_watches() == {"live": 1, "failed": 0, "lapsed": 0}


def test_a_lapsed_watch_is_counted_and_logged_at_each_sync(
    mailbox: Mailbox, pusher: Pusher, caplog: pytest.LogCaptureFixture
) -> None:
    renew_watch(mailbox.account, mailbox.gmail)
    set_account(mailbox, watch_expires_at=timezone.now() - timedelta(minutes=1))
    assert count_watches()["lapsed"] == 1
    with firm_scope(mailbox.firm):
        request_sync(mailbox.account)
    with caplog.at_level("WARNING", logger="mail"):
        drain()
    lines = [str(record.msg) for record in caplog.records if "mail.watch_lapsed" in str(record.msg)]
    assert len(lines) == 1
    assert mailbox.account.address not in lines[0]


def test_mailboxes_that_are_not_read_have_no_watch_to_lapse(
    mailbox: Mailbox, pusher: Pusher
) -> None:
    set_account(mailbox, connection=Connection.NEEDS_REAUTH)
    assert count_watches() == {"live": 0, "failed": 0, "lapsed": 0}


def test_old_receipts_go_with_a_renewal(mailbox: Mailbox, pusher: Pusher) -> None:
    assert last_push_age() is None
    pusher.push(mailbox.account.address, 1500, "1")
    with all_firms("test"):
        PushReceipt.objects.update(received_at=timezone.now() - timedelta(days=8))
    pusher.push(mailbox.account.address, 1501, "2")
    age = last_push_age()
    assert age is not None
    assert age < 24 * 3600
    renew_watch(mailbox.account, mailbox.gmail)
    assert [row.message_id for row in stored(PushReceipt)] == ["2"]


@pytest.mark.req("S-02")
def test_watches_are_renewed_at_start_and_every_day(
    mailbox: Mailbox, pusher: Pusher, system_firm: Firm
) -> None:
    def renewals() -> int:
        tick()
        made = len(jobs(WATCH_TYPE))
        work_off_watches()
        return made

    def work_off_watches() -> None:
        from jobs.models import JobQueue

        with all_firms("test"):
            JobQueue.objects.filter(job_type=WATCH_TYPE).delete()

    with stopped_at(START):
        store_default_schedules()
        assert renewals() == 1
    with stopped_at(START + 30 * MINUTE):
        # Another worker starts, and stores the default schedules again.
        store_default_schedules()
        assert renewals() == 0
    with stopped_at(START + 120 * MINUTE):
        store_default_schedules()
        assert renewals() == 1
    with stopped_at(START + (120 + 24 * 60 - 1) * MINUTE):
        assert renewals() == 0
    with stopped_at(START + (120 + 24 * 60) * MINUTE):
        assert renewals() == 1


@pytest.mark.req("S-02")
def test_a_start_leaves_a_schedule_alone_that_somebody_paused(
    mailbox: Mailbox, pusher: Pusher, system_firm: Firm
) -> None:
    with stopped_at(START):
        store_default_schedules()
    with all_firms("test"):
        Schedule.objects.filter(name="Renew watches").update(enabled=False)
    with stopped_at(START + 120 * MINUTE):
        store_default_schedules()
        tick()
    assert jobs(WATCH_TYPE) == []


@pytest.mark.req("S-02")
@pytest.mark.parametrize("who", ["mailbox", "person", "reauth", "firm"])
def test_what_is_inactive_is_left_out(
    mailbox: Mailbox, pusher: Pusher, system_firm: Firm, who: str
) -> None:
    person = UserFactory(member_of=mailbox.firm, is_active=who != "person")
    values = {"owner": person, "active": who != "mailbox"}
    if who == "reauth":
        values["connection"] = Connection.NEEDS_REAUTH
    set_account(mailbox, **values)
    if who == "firm":
        Firm.objects.filter(pk=mailbox.firm.pk).update(active=False)
    with stopped_at(START):
        store_default_schedules()
    with stopped_at(START + 60 * MINUTE):
        tick()
    assert jobs("watch.renew.gmail") == []


def test_a_push_is_taken_for_the_active_person_only(mailbox: Mailbox, pusher: Pusher) -> None:
    person = UserFactory(member_of=mailbox.firm, is_active=False)
    set_account(mailbox, owner=person)
    assert pusher.push(mailbox.account.address, 1500).status_code == 200
    assert jobs() == []


def test_asking_twice_makes_one_job(mailbox: Mailbox, pusher: Pusher) -> None:
    ask(mailbox)
    ask(mailbox)
    with firm_scope(mailbox.firm):
        enqueue(WATCH_TYPE, {"account_id": mailbox.account.pk})
    assert len(jobs(WATCH_TYPE)) == 1
