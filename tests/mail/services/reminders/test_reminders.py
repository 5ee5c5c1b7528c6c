"""Reminders: each date reaches its person once, at a time they want, late rather than never."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, time, timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.core.mail.backends.locmem import EmailBackend
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import Settings

from jobs import testing
from jobs.engine.claim import Claim
from jobs.engine.release import release
from jobs.models import Delivery, JobQueue
from jobs.operations.notifications import deliveries
from jobs.queue import EnqueueSpec, cancel, enqueue, retry
from jobs.states import Channel, DeliveryStatus
from jobs.testing import frozen_time, run_job
from jobs.testing.clock import Clock
from jobs.testing.run import claimed_now, performed
from mail.errors import PreferenceInvalid, ReminderInvalid, RowGone, WrongState
from mail.models import Reminder, ReminderStatus
from mail.services import dates
from mail.services.reminders import delivery
from mail.services.reminders.delivery import enqueue_due_reminders
from mail.services.reminders.preferences import change_preference, quiet_until, reset_preference
from mail.services.reminders.reminders import (
    cancel_reminder,
    change_reminder,
    create_reminder,
    delete_reminder,
)
from tenants.models import AuditEntry, Firm, Membership, Role
from tenants.scope import all_firms, firm_scope
from tests.concurrency.test_admission import in_thread, on_postgresql, open_transaction
from tests.factories.tenants import UserFactory, new_member
from tests.jobs.admin.pages import audit_entries
from tests.mail.mail_kit import jobs, only, stored
from tests.queue_kit import take
from tests.support.receiver import receiver

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("U-03")]

VIENNA = "Europe/Vienna"
# Python's clock, which these tests do not move, decides whether a date is in the future.
SPRING = datetime(2099, 3, 29, 1, 0, tzinfo=UTC)
AUTUMN = datetime(2099, 10, 25, 1, 0, tzinfo=UTC)


@pytest.fixture
def person(firm: Firm) -> Any:
    from tenants.models import Role

    return new_member(firm, Role.VIEWER)


def soon() -> datetime:
    """Return a date that is to come, at a whole second: databases keep times differently."""
    return datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)


def remind(firm: Firm, person: Any, due_at: datetime | None, **settings: Any) -> Reminder:
    return create_reminder(firm.pk, person.pk, title="Call Anna", due_at=due_at, **settings)


def enqueue_due() -> int:
    """Look for due reminders, as the job of the system firm does."""
    return enqueue_due_reminders(lambda: None)


def deliver_all(clock: Clock) -> None:
    enqueue_due()
    testing.drain()


def moments(clock: Clock, end: datetime, step: timedelta) -> list[datetime]:
    """Let time go by in steps, delivering what is due; return when something was delivered."""
    seen, known = [], 0
    while clock.now < end:
        clock.move_to(clock.now + step)
        deliver_all(clock)
        count = len(stored(Delivery))
        seen += [clock.now] * (count - known)
        known = count
    return seen


def test_a_reminder_is_delivered_once_and_is_done(
    firm: Firm, person: Any, mailoutbox: list[Any]
) -> None:
    due_at = soon()
    reminder = remind(firm, person, due_at, body="About the price list")
    with frozen_time(due_at - timedelta(seconds=1)) as clock:
        assert enqueue_due() == 0
        clock.tick(seconds=2)
        assert (enqueue_due(), enqueue_due()) == (1, 0)
        testing.drain()
        job = only(jobs("reminder_delivery", live=False))
        assert job.user_id == person.pk
        assert job.result == {
            "delivered": True,
            "reminder_id": str(reminder.pk),
            "channels": ["email"],
        }
        # The idempotency key is taken for ever, so nobody can enqueue the same date again.
        again = enqueue("reminder_delivery", job.payload, firm=firm)
        assert (again.created, again.job_id) == (False, job.pk)
    (letter,) = mailoutbox
    assert (letter.to, letter.subject) == ([person.email], "[Mailroom] Reminder: Call Anna")
    assert "About the price list" in letter.body
    assert only(stored(Reminder)).status == ReminderStatus.DELIVERED
    # Only the reminder's person may read the text, so it is in no payload and in no result.
    assert "Anna" not in f"{job.payload} {job.result}"


@pytest.mark.parametrize(
    ("cron", "start", "expected"),
    [
        # 02:30 does not exist: the reminder is delivered when the clock has jumped to 03:00.
        ("30 2 * * *", SPRING - timedelta(hours=3), ["2099-03-29T01:00"]),
        # 02:30 comes twice: the reminder is delivered the first time.
        ("30 2 * * *", AUTUMN - timedelta(hours=3), ["2099-10-25T00:30"]),
    ],
)
def test_a_change_of_the_clock_neither_loses_nor_repeats_a_date(
    firm: Firm,
    person: Any,
    cron: str,
    start: datetime,
    expected: list[str],
    mailoutbox: list[Any],
) -> None:
    first = (start + timedelta(minutes=1)).replace(second=0)
    remind(firm, person, first, cron=cron, time_zone=VIENNA)
    with frozen_time(start) as clock:
        seen = moments(clock, start + timedelta(hours=6), timedelta(minutes=15))
    assert [f"{one:%Y-%m-%dT%H:%M}" for one in seen[1:]] == expected
    assert len(mailoutbox) == 2


def test_quiet_hours_hold_a_reminder_back_and_cost_no_attempt(
    firm: Firm, person: Any, mailoutbox: list[Any]
) -> None:
    change_preference(
        firm.pk, person.pk, time_zone=VIENNA, quiet_from=time(22), quiet_until=time(7)
    )
    # 23:30 in Vienna, on the evening before the change to summer time.
    due_at = datetime(2099, 3, 28, 22, 30, tzinfo=UTC)
    remind(firm, person, due_at)
    with frozen_time(due_at) as clock:
        deliver_all(clock)
        job = only(jobs("reminder_delivery"))
        # 07:00 in Vienna, in summer time.
        assert job.scheduled_at == datetime(2099, 3, 29, 5, 0, tzinfo=UTC)
        assert (job.attempts, mailoutbox) == (0, [])
        clock.move_to(job.scheduled_at)
        testing.drain()
    assert len(mailoutbox) == 1
    assert "23:30 CET" in mailoutbox[0].body


@pytest.mark.parametrize(
    ("changed", "hours"),
    [
        ({"quiet_from": None, "quiet_until": None}, 0),
        # In Tokyo it is half past seven in the morning.
        ({"time_zone": "Asia/Tokyo"}, 0),
        ({"time_zone": "Asia/Dhaka"}, 2.5),
        ({"quiet_until": time(23)}, 0.5),
        ({"quiet_until": time(9)}, 10.5),
        (None, 0),
    ],
)
def test_what_waits_follows_the_quiet_hours_that_its_person_wants_meanwhile(
    firm: Firm,
    person: Any,
    mailoutbox: list[Any],
    changed: dict[str, Any] | None,
    hours: float,
) -> None:
    row = change_preference(firm.pk, person.pk, quiet_from=time(21), quiet_until=time(7))
    due_at = datetime(2099, 3, 1, 22, tzinfo=UTC)
    remind(firm, person, due_at)
    with frozen_time(due_at) as clock:
        deliver_all(clock)
        clock.tick(minutes=30)
        if changed is None:
            reset_preference(row)
        else:
            change_preference(firm.pk, person.pk, **changed)
        if hours:
            testing.drain()
            assert mailoutbox == []
            clock.tick(hours=hours)
        testing.drain()
        assert len(mailoutbox) == 1
        clock.tick(hours=24)
        assert not testing.drain().ran
    assert len(mailoutbox) == 1


def test_of_many_dates_that_wait_one_is_looked_at_again(
    firm: Firm, person: Any, mailoutbox: list[Any]
) -> None:
    change_preference(firm.pk, person.pk, quiet_from=time(21), quiet_until=time(7))
    first = datetime(2099, 3, 1, 22, tzinfo=UTC)
    remind(firm, person, first, interval_seconds=600)
    remind(firm, person, first)
    with frozen_time(first) as clock:
        for _ in range(5):
            deliver_all(clock)
            clock.tick(minutes=10)
        change_preference(firm.pk, person.pk, quiet_from=None, quiet_until=None)
        assert len(testing.drain().ran) == 2
        clock.move_to(first + timedelta(hours=9))
        testing.drain()
    assert len(mailoutbox) == 2
    edited = [one for one in stored(AuditEntry) if one.act == "job.edit"]
    assert len(edited) == 2


def test_other_settings_leave_what_waits_alone(firm: Firm, person: Any) -> None:
    change_preference(firm.pk, person.pk, quiet_from=time(21), quiet_until=time(7))
    due_at = datetime(2099, 3, 1, 22, tzinfo=UTC)
    remind(firm, person, due_at)
    with frozen_time(due_at) as clock:
        deliver_all(clock)
        change_preference(firm.pk, person.pk, email=True, quiet_from=time(21))
        change_preference(firm.pk, UserFactory().pk, time_zone="Asia/Tokyo")
        assert not testing.drain().ran
        assert only(jobs("reminder_delivery")).scheduled_at == due_at + timedelta(hours=9)


def test_of_the_dates_that_quiet_hours_hold_back_one_comes(
    firm: Firm, person: Any, mailoutbox: list[Any]
) -> None:
    change_preference(firm.pk, person.pk, quiet_from=time(22), quiet_until=time(7))
    first = datetime(2099, 3, 1, 22, tzinfo=UTC)
    remind(firm, person, first, interval_seconds=3600)
    with frozen_time(first) as clock:
        while clock.now < first + timedelta(hours=9):
            deliver_all(clock)
            clock.tick(hours=1)
        assert mailoutbox == []
        deliver_all(clock)
        assert [one.body.splitlines()[-1] for one in mailoutbox] == ["Due: 2099-03-01 22:00 UTC"]
        clock.tick(hours=1)
        deliver_all(clock)
    assert len(mailoutbox) == 2


def test_where_the_queue_is_always_late_dates_come_all_the_same(
    firm: Firm, person: Any, mailoutbox: list[Any]
) -> None:
    first = datetime(2099, 3, 1, 8, tzinfo=UTC)
    remind(firm, person, first, interval_seconds=3600)
    with frozen_time(first) as clock:
        for number in range(9):
            assert delivery.enqueue_due_reminders(lambda: None) == 1
            if number >= 2:
                testing.drain(max_jobs=1)
            clock.tick(hours=1)
    delivered = [one.body.splitlines()[-1] for one in mailoutbox]
    assert delivered == [f"Due: 2099-03-01 {hour:02}:00 UTC" for hour in (8, 11, 14)]


def test_the_people_of_due_reminders_are_read_with_them(firm: Firm, person: Any) -> None:
    def queries(count: int) -> int:
        due_at = soon()
        for _ in range(count):
            remind(firm, person, due_at)
        with frozen_time(due_at), CaptureQueriesContext(connection) as captured:
            assert enqueue_due() == count
        return sum(1 for one in captured if '"auth_user"' in one["sql"])

    assert queries(6) == queries(2)


def test_a_firms_own_job_looks_at_its_reminders_alone(
    firm: Firm, other_firm: Firm, person: Any
) -> None:
    first, platform = soon(), Firm.objects.system()
    remind(firm, person, first)
    remind(other_firm, new_member(other_firm, Role.VIEWER), first)
    with frozen_time(first):
        run_job("reminders.enqueue_due", firm=firm)
        assert only(jobs(delivery.DELIVERY_TYPE)).firm_id == firm.pk
        run_job("reminders.enqueue_due", firm=platform)
        assert {job.firm_id for job in jobs(delivery.DELIVERY_TYPE)} == {firm.pk, other_firm.pk}


def test_two_dates_are_not_delivered_at_the_same_time(firm: Firm, person: Any) -> None:
    first = datetime(2099, 3, 1, 8, tzinfo=UTC)
    remind(firm, person, first, interval_seconds=3600)
    with frozen_time(first) as clock:
        for _ in range(2):
            delivery.enqueue_due_reminders(lambda: None)
            clock.tick(hours=1)
        dates = {job.pk for job in jobs(delivery.DELIVERY_TYPE)}
        assert len(dates) == 2
        assert len(dates & {held.job_id for held in take(10)}) == 1


def test_a_date_whose_later_one_is_canceled_is_not_lost(
    firm: Firm, person: Any, mailoutbox: list[Any]
) -> None:
    first = datetime(2099, 3, 1, 8, tzinfo=UTC)
    remind(firm, person, first, interval_seconds=3600)
    with frozen_time(first) as clock:
        delivery.enqueue_due_reminders(lambda: None)
        clock.tick(hours=1)
        delivery.enqueue_due_reminders(lambda: None)
        cancel(jobs(delivery.DELIVERY_TYPE)[-1])
        testing.drain()
    assert [one.body.splitlines()[-1] for one in mailoutbox] == ["Due: 2099-03-01 08:00 UTC"]


@pytest.mark.parametrize(
    ("now", "begin", "end", "expected"),
    [
        ("2099-01-10T20:59", "22:00", "07:00", None),
        ("2099-01-10T21:00", "22:00", "07:00", "2099-01-11T06:00"),
        ("2099-01-11T05:59", "22:00", "07:00", "2099-01-11T06:00"),
        ("2099-01-11T06:00", "22:00", "07:00", None),
        ("2099-01-11T12:00", "12:00", "14:00", "2099-01-11T13:00"),
        ("2099-01-11T12:00", "12:00", "12:00", None),
        # The clock skips the end: it is quiet until the clock jumps, and not after that.
        ("2099-03-29T00:30", "22:00", "02:30", "2099-03-29T01:00"),
        ("2099-03-29T01:00", "22:00", "02:30", None),
        # The end comes twice: quiet hours end at the first, and begin again until the second.
        ("2099-10-24T23:30", "22:00", "02:30", "2099-10-25T00:30"),
        ("2099-10-25T01:15", "22:00", "02:30", "2099-10-25T01:30"),
    ],
)
def test_quiet_hours_follow_the_clock_of_their_person(
    now: str, begin: str, end: str, expected: str | None
) -> None:
    moment = datetime.fromisoformat(now).replace(tzinfo=UTC)
    until = quiet_until(moment, VIENNA, time.fromisoformat(begin), time.fromisoformat(end))
    assert (until and f"{until:%Y-%m-%dT%H:%M}") == expected


@pytest.mark.parametrize(
    ("time_zone", "evening"),
    [
        ("Europe/Vienna", "2027-03-27T23:30+01:00"),
        ("Europe/Vienna", "2027-10-30T23:30+02:00"),
        ("America/New_York", "2027-03-13T23:30-05:00"),
        ("Australia/Lord_Howe", "2027-10-02T23:30+10:30"),
        # In Cairo, the clock skips the first hour of a day.
        ("Africa/Cairo", "2027-04-29T23:30+02:00"),
    ],
)
@pytest.mark.parametrize("end", [time(0), time(0, 30), time(2), time(2, 15), time(2, 45), time(3)])
def test_quiet_hours_end_with_the_first_minute_that_is_not_quiet(
    time_zone: str, evening: str, end: time
) -> None:
    minute = begin = datetime.fromisoformat(evening)
    while quiet_until(minute, time_zone, time(22), end) is not None:
        minute += timedelta(minutes=1)
    assert quiet_until(begin, time_zone, time(22), end) == minute


def test_dates_that_were_missed_are_delivered_late_in_one(
    firm: Firm, person: Any, mailoutbox: list[Any]
) -> None:
    first = soon()
    remind(firm, person, first, interval_seconds=3600)
    with frozen_time(first + timedelta(days=2, minutes=5)) as clock:
        deliver_all(clock)
        assert len(mailoutbox) == 1
        reminder = only(stored(Reminder))
        assert reminder.queued_at == first + timedelta(days=2)
        assert reminder.due_at == first + timedelta(days=2, hours=1)
        assert reminder.status == ReminderStatus.ACTIVE
        clock.move_to(reminder.due_at)
        deliver_all(clock)
    assert len(mailoutbox) == 2


class Killed(BaseException):
    """The worker dies here; `except Exception` does not catch this."""


def kill_once(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, *, after: bool) -> None:
    """Let the next call of the function kill the worker, before or after its work."""
    real = getattr(owner, name)
    done: list[bool] = []

    def dying(*args: Any, **kwargs: Any) -> Any:
        if done:
            return real(*args, **kwargs)
        done.append(True)
        if after:
            real(*args, **kwargs)
        raise Killed

    monkeypatch.setattr(owner, name, dying)


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("step", ["enqueue_many", "_enqueue_page"])
def test_a_kill_while_due_reminders_are_enqueued_loses_and_repeats_none(
    firm: Firm,
    person: Any,
    monkeypatch: pytest.MonkeyPatch,
    mailoutbox: list[Any],
    step: str,
    after: bool,
) -> None:
    due_at = soon()
    remind(firm, person, due_at)
    kill_once(monkeypatch, dates, step, after=after)
    with frozen_time(due_at) as clock:
        with pytest.raises(Killed):
            enqueue_due()
        deliver_all(clock)
    assert (len(mailoutbox), len(jobs("reminder_delivery", live=False))) == (1, 1)


def attempt_of(job: JobQueue) -> Claim:
    """Run an attempt that is not settled, as that of a killed worker; return the claim."""
    claimed = claimed_now(job.pk)
    with suppress(Killed):
        performed(claimed)
    with all_firms("test"):
        release([claimed], "the worker was killed")
    return claimed


@pytest.mark.parametrize(
    ("owner", "name", "after", "letters"),
    [
        (delivery, "addressee", False, 1),
        (delivery, "send_by_every_channel", False, 1),
        # Between the server's answer and its record nobody can tell, so the same Message-ID is sent
        # twice.
        (delivery, "send_by_every_channel", True, 1),
        (EmailBackend, "send_messages", False, 1),
        (EmailBackend, "send_messages", True, 2),
        (deliveries, "_finish", False, 2),
        (deliveries, "_finish", True, 1),
        (delivery, "_note_delivery", False, 1),
        (delivery, "_note_delivery", True, 1),
    ],
)
def test_a_worker_killed_at_each_step_delivers_in_the_end(
    firm: Firm,
    person: Any,
    monkeypatch: pytest.MonkeyPatch,
    mailoutbox: list[Any],
    owner: Any,
    name: str,
    after: bool,
    letters: int,
) -> None:
    due_at = soon()
    remind(firm, person, due_at)
    kill_once(monkeypatch, owner, name, after=after)
    with frozen_time(due_at) as clock:
        enqueue_due()
        job = only(jobs("reminder_delivery"))
        attempt_of(job)
        clock.tick(hours=1)
        testing.drain()
    assert len(mailoutbox) == letters
    assert len({letter.extra_headers["Message-ID"] for letter in mailoutbox}) == 1
    assert only(jobs(live=False), pk=job.pk).status == "completed"


@pytest.mark.req("U-04")
def test_each_channel_takes_it_once_and_every_attempt_is_kept(
    firm: Firm, person: Any, settings: Settings, mailoutbox: list[Any]
) -> None:
    due_at = soon()
    with receiver() as discord, frozen_time(due_at) as clock:
        settings.WEBHOOK_PRIVATE_HOSTS = frozenset({"127.0.0.1"})
        change_preference(firm.pk, person.pk, discord_webhook=discord.url)
        discord.answer(503)
        remind(firm, person, due_at + timedelta(seconds=1))
        clock.tick(seconds=1)
        enqueue_due()
        job = only(jobs("reminder_delivery"))
        assert run_job(job).status == "pending"
        clock.tick(hours=1)
        assert run_job(job).status == "completed"
    assert len(mailoutbox) == 1
    told = discord.received[-1].json
    assert told["content"].startswith("**Reminder: Call Anna**")
    assert told["allowed_mentions"] == {"parse": []}
    history = [(row.channel, row.status, row.attempt) for row in stored(Delivery)]
    assert history == [
        (Channel.EMAIL, DeliveryStatus.DELIVERED, 1),
        (Channel.DISCORD, DeliveryStatus.FAILED, 1),
        (Channel.DISCORD, DeliveryStatus.DELIVERED, 2),
    ]
    # Whoever knows the webhook's path may post, so it is shown nowhere, and stored encrypted.
    assert {row.recipient for row in stored(Delivery) if row.channel == "discord"} == {
        discord.url.removesuffix("/hook")
    }


def test_a_post_that_was_recorded_is_not_repeated_after_a_kill(
    firm: Firm, person: Any, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    due_at = soon()
    with receiver() as discord, frozen_time(due_at) as clock:
        settings.WEBHOOK_PRIVATE_HOSTS = frozenset({"127.0.0.1"})
        change_preference(firm.pk, person.pk, email=False, discord_webhook=discord.url)
        remind(firm, person, due_at)
        enqueue_due()
        job = only(jobs("reminder_delivery"))
        kill_once(monkeypatch, deliveries, "_finish", after=True)
        attempt_of(job)
        clock.tick(hours=1)
        testing.drain()
    assert len(discord.received) == 1
    assert only(jobs(live=False), pk=job.pk).status == "completed"


def test_what_is_gone_canceled_or_moved_is_skipped(firm: Firm, person: Any) -> None:
    gone = enqueue("reminder_delivery", {"reminder_id": uuid4(), "user_id": person.pk}, firm=firm)
    done = run_job(gone.job)
    assert (done.status, done.result) == (
        "completed",
        {"skipped": True, "reason": "Reminder not found"},
    )
    due_at = soon()
    canceled, moved = remind(firm, person, due_at), remind(firm, person, due_at)
    with frozen_time(due_at):
        enqueue_due()
        waiting = jobs("reminder_delivery")
        cancel_reminder(canceled)
        with firm_scope(firm):
            Reminder.objects.filter(pk=moved.pk).update(planned_at=due_at + timedelta(minutes=1))
        assert {run_job(job).result["reason"] for job in waiting} == {
            "Reminder is canceled",
            "Reminder was given other dates",
        }
    with pytest.raises(WrongState):
        cancel_reminder(canceled)
    with pytest.raises(WrongState):
        change_reminder(canceled, title="Other")


def test_people_who_left_are_left_out_and_reminded_late_when_they_are_back(
    firm: Firm, person: Any, mailoutbox: list[Any]
) -> None:
    due_at = soon()
    remind(firm, person, due_at)
    with frozen_time(due_at) as clock:
        type(person).objects.filter(pk=person.pk).update(is_active=False)
        assert enqueue_due() == 0
        Firm.objects.filter(pk=firm.pk).update(active=False)
        type(person).objects.filter(pk=person.pk).update(is_active=True)
        assert enqueue_due() == 0
        Firm.objects.filter(pk=firm.pk).update(active=True)
        assert enqueue_due() == 1
        with firm_scope(firm):
            membership = Membership.objects.get(user=person)
            Membership.objects.all().delete()
        job = only(jobs("reminder_delivery"))
        assert run_job(job).status == "canceled"
        with firm_scope(firm):
            membership.save(force_insert=True)
        retry(job)
        clock.tick(hours=1)
        testing.drain()
    assert len(mailoutbox) == 1


def test_new_dates_replace_the_old_ones(firm: Firm, person: Any) -> None:
    due_at = soon()
    reminder = remind(firm, person, due_at, interval_seconds=60)
    changed = change_reminder(reminder, cron="0 9 * * 1", interval_seconds=None)
    assert changed.due_at != due_at
    assert (changed.due_at.weekday(), changed.due_at.hour) == (0, 9)
    renamed = change_reminder(reminder, title="Write to Anna")
    assert (renamed.due_at, renamed.planned_at) == (changed.due_at, changed.planned_at)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({}, "due_at"),
        ({"due_at": datetime(2020, 1, 1, tzinfo=UTC)}, "due_at"),
        ({"cron": "every day"}, "cron"),
        ({"cron": "0 9 * * *", "interval_seconds": 60}, "cron"),
        ({"interval_seconds": 60, "time_zone": "Vienna"}, "time_zone"),
        ({"interval_seconds": 60, "title": "a\nb\0"}, "title"),
    ],
)
def test_what_cannot_be_a_reminder_is_refused(
    firm: Firm, person: Any, settings: dict[str, Any], field: str
) -> None:
    with pytest.raises(ReminderInvalid) as refused:
        create_reminder(firm.pk, person.pk, **{"title": "Call Anna", **settings})
    assert [fault["field"] for fault in refused.value.errors] == [field]


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({"time_zone": "Vienna"}, "time_zone"),
        ({"quiet_from": time(22)}, "quiet_until"),
        ({"quiet_from": time(22), "quiet_until": time(22)}, "quiet_until"),
        ({"discord_webhook": "discord.com/api/webhooks/1"}, "discord_webhook"),
    ],
)
def test_what_cannot_be_a_preference_is_refused(
    firm: Firm, person: Any, settings: dict[str, Any], field: str
) -> None:
    with pytest.raises(PreferenceInvalid) as refused:
        change_preference(firm.pk, person.pk, **settings)
    assert [fault["field"] for fault in refused.value.errors] == [field]


@pytest.mark.parametrize("operate", [change_reminder, cancel_reminder, delete_reminder])
def test_what_somebody_else_deleted_meanwhile_is_said_to_be_gone(firm: Firm, operate: Any) -> None:
    person = new_member(firm, Role.VIEWER)
    row = create_reminder(firm.pk, person.pk, title="Call Anna", due_at=SPRING)
    delete_reminder(row)
    kept = len(audit_entries(row.pk))
    with pytest.raises(RowGone):
        operate(row)
    assert len(audit_entries(row.pk)) == kept


@on_postgresql
def test_a_transaction_that_holds_one_reminder_holds_up_no_other(
    firm: Firm, other_firm: Firm
) -> None:
    held, *others = [
        create_reminder(one.pk, new_member(one, role).pk, title="Call Anna", due_at=SPRING)
        for one, role in (
            (firm, Role.VIEWER), (firm, Role.ADMIN), (other_firm, Role.VIEWER),
        )
    ]  # fmt: skip

    def tick() -> int:
        with frozen_time(SPRING + timedelta(seconds=1)):
            return enqueue_due_reminders(lambda: None)

    with open_transaction(lambda _: change_reminder(held, reason="seen"), firm):
        assert in_thread(tick) == len(others)
    assert tick() == 1
    asked = [one.payload["reminder_id"] for one in jobs("reminder_delivery")]
    assert sorted(asked) == sorted(str(one.pk) for one in (held, *others))


def test_a_time_zone_that_vanished_holds_up_no_other_reminder(
    firm: Firm,
    person: Any,
    mailoutbox: list[Any],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # With pages of one row, the reminder without a valid zone fills a page, and the next one must
    # still come.
    monkeypatch.setattr(dates, "PAGE", 1)
    due_at = soon()
    lost = remind(firm, person, due_at, cron="0 9 * * *")
    remind(firm, person, due_at + timedelta(seconds=1), cron="0 9 * * *")
    with firm_scope(firm):
        Reminder.objects.filter(pk=lost.pk).update(time_zone="Nowhere/Gone")
    with frozen_time(due_at + timedelta(minutes=1)), caplog.at_level("ERROR", logger="mail"):
        assert enqueue_due() == 1
        testing.drain()
        assert len(mailoutbox) == 1
        (line,) = [str(one.msg) for one in caplog.records if "dates_not_computed" in str(one.msg)]
        assert str(lost.pk) in line
        assert "Nowhere/Gone" in line
        assert "Anna" not in line
        # The lost reminder comes as soon as its zone is corrected.
        with firm_scope(firm):
            Reminder.objects.filter(pk=lost.pk).update(time_zone=VIENNA)
        assert enqueue_due() == 1


def test_a_reminder_whose_job_is_refused_holds_up_no_other(
    firm: Firm,
    other_firm: Firm,
    mailoutbox: list[Any],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    due_at = soon()
    of_row = delivery._specs
    refused, *others = [
        create_reminder(one.pk, new_member(one, role).pk, title="Call Anna", due_at=due_at)
        for one, role in (
            (firm, Role.VIEWER), (firm, Role.ADMIN), (other_firm, Role.VIEWER),
        )
    ]  # fmt: skip

    def specs(reminder: Reminder, at: datetime) -> list[EnqueueSpec]:
        (spec,) = of_row(reminder, at)
        if reminder == refused:
            return [replace(spec, payload={**(spec.payload or {}), "reminder_id": "Call Anna"})]
        return [spec]

    with frozen_time(due_at + timedelta(minutes=1)), caplog.at_level("ERROR", logger="mail"):
        with monkeypatch.context() as damaged:
            damaged.setattr(delivery, "_specs", specs)
            assert enqueue_due() == len(others)
        (line,) = [str(one.msg) for one in caplog.records if "due_jobs_refused" in str(one.msg)]
        assert str(refused.pk) in line
        assert "reminder_id" in line
        assert "Anna" not in line
        testing.drain()
        assert len(mailoutbox) == len(others)
        # The refused reminder is still due.
        assert enqueue_due() == 1
