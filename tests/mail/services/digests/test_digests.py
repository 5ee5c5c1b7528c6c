"""Daily digests: one for each person, mailbox and day, for those who asked for it."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest
from django.core.mail.backends.locmem import EmailBackend
from pytest_django import Settings

from jobs import testing
from jobs.queue import enqueue
from jobs.testing import frozen_time, run_job
from mail.llm.base import Category
from mail.models import NotificationPreference
from mail.services.digests import delivery
from mail.services.digests.delivery import enqueue_due_digests
from mail.services.mailboxes.content_access import break_glass, grant_content, withdraw_content
from mail.services.reminders.preferences import change_preference, reset_preference
from tenants.audit import SERVICE, Actor
from tenants.models import Membership, Role
from tenants.scope import firm_scope
from tests.factories.tenants import UserFactory, new_member
from tests.mail.draft_kit import asked, prepared
from tests.mail.mail_kit import Mailbox, jobs, only, stored
from tests.mail.services.mailboxes.test_briefing import make_threads
from tests.mail.services.reminders.test_reminders import attempt_of, kill_once
from tests.support.receiver import receiver

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-24")]

VIENNA = "Europe/Vienna"
# The evening before: 23:00 in Vienna.
EVE = datetime(2099, 1, 14, 22, tzinfo=UTC)
DAY = date(2099, 1, 15)


@pytest.fixture
def owner(mailbox: Mailbox) -> Any:
    """Return the owner of the mailbox, whose mail is theirs alone."""
    person = new_member(mailbox.firm, Role.VIEWER)
    with firm_scope(mailbox.firm):
        type(mailbox.account).objects.update(owner=person, shared=False)
    return person


def want(mailbox: Mailbox, person: Any, at: time = time(7, 30), **settings: Any) -> None:
    """Store a person's wish for a digest, on the evening before."""
    with frozen_time(EVE):
        change_preference(
            mailbox.firm.pk, person.pk, **{"time_zone": VIENNA, "digest_at": at, **settings}
        )


def enqueue_due() -> int:
    """Look for due digests, as the job of the system firm does."""
    return enqueue_due_digests(lambda: None)


def morning(hour: int = 6, minute: int = 30) -> Any:
    """Stop the clock at this time of the day in UTC, by default at half past seven in Vienna."""
    return frozen_time(datetime(2099, 1, 15, hour, minute, tzinfo=UTC))


def results() -> list[Any]:
    return [job.result for job in jobs("digest_delivery", live=False)]


def test_it_comes_once_a_day_and_says_what_waits(
    mailbox: Mailbox, owner: Any, mailoutbox: list[Any], settings: Settings
) -> None:
    settings.PUBLIC_URL = "https://mailroom.example"
    prepared(mailbox)
    asked(mailbox)
    make_threads(mailbox, 12, Category.ACTION_REQUIRED)
    make_threads(mailbox, 1, Category.FYI)
    want(mailbox, owner)
    with frozen_time(EVE) as clock:
        clock.move_to(datetime(2099, 1, 15, 6, 29, tzinfo=UTC))
        assert enqueue_due() == 0
        clock.tick(minutes=1)
        assert (enqueue_due(), enqueue_due()) == (1, 0)
        testing.drain()
    (letter,) = mailoutbox
    assert letter.to == [owner.email]
    assert letter.subject == f"[Mailroom] {mailbox.account.address}: 13 wait for you, 1 draft"
    assert letter.body.startswith(f"{mailbox.account.address}, Thursday, 15 January 2099\n")
    for told in (
        "Waits for you (13)", "* action_required 0\n", "* and 3 more", "Drafts in Gmail (1)",
        "* Re: Price list\n", "Needs response         1           1\n",
        "FYI                    1           1\n", "https://mailroom.example/admin/mail/draft/",
        f"https://mailroom.example/admin/mail/mailaccount/{mailbox.account.pk}/briefing/\n",
    ):  # fmt: skip
        assert told in letter.body
    assert "Waits for your approval" not in letter.body
    # Mailroom recognises the digest in the owner's mailbox, and does not judge it.
    before = len(mailbox.messages())
    mailbox.receive(letter.message().as_bytes())
    mailbox.store_all()
    assert len(mailbox.messages()) == before
    job = only(jobs("digest_delivery", live=False))
    assert job.payload["day"] == str(DAY)
    assert job.user_id == owner.pk
    assert "Price list" not in f"{job.payload} {job.result}"
    again = enqueue("digest_delivery", job.payload, firm=mailbox.firm)
    assert (again.created, again.job_id) == (False, job.pk)


def test_the_day_is_that_of_the_persons_clock(
    mailbox: Mailbox, owner: Any, mailoutbox: list[Any]
) -> None:
    """In UTC, half past midnight in Vienna is on the day before."""
    make_threads(mailbox, 1, Category.ACTION_REQUIRED)
    want(mailbox, owner, time(0, 30))
    with frozen_time(datetime(2099, 1, 14, 23, 30, tzinfo=UTC)):
        assert enqueue_due() == 1
        testing.drain()
    assert only(jobs("digest_delivery", live=False)).payload["day"] == str(DAY)
    (letter,) = mailoutbox
    assert "Thursday, 15 January 2099" in letter.body


def test_nothing_is_sent_when_nothing_waits(
    mailbox: Mailbox, owner: Any, mailoutbox: list[Any]
) -> None:
    make_threads(mailbox, 3, Category.FYI)
    make_threads(mailbox, 3, Category.WAITING)
    make_threads(mailbox, 1, Category.NEEDS_RESPONSE, status="archived")
    want(mailbox, owner)
    with morning():
        enqueue_due()
        testing.drain()
    assert (mailoutbox, results()) == ([], [{"skipped": True, "reason": "Nothing waits"}])


def days_of_delivery(mailbox: Mailbox, start: datetime, mailoutbox: list[Any]) -> list[str]:
    """Let two days go by in steps of a quarter of an hour; return when digests were sent."""
    seen = []
    with frozen_time(start) as clock:
        while clock.now < start + timedelta(days=2):
            clock.tick(minutes=15)
            known = len(mailoutbox)
            if enqueue_due():
                testing.drain()
            seen += [f"{clock.now:%d %H:%M}"] * (len(mailoutbox) - known)
    return seen


@pytest.mark.parametrize(
    ("start", "expected"),
    [
        # 02:30 does not exist on the 29th: the digest is sent when the clock has jumped to 03:00.
        (datetime(2099, 3, 27, 22, tzinfo=UTC), ["28 01:30", "29 01:00"]),
        # 02:30 comes twice on the 25th: the first time counts.
        (datetime(2099, 10, 23, 22, tzinfo=UTC), ["24 00:30", "25 00:30"]),
    ],
)
def test_a_change_of_the_clock_neither_loses_nor_repeats_one(
    mailbox: Mailbox, owner: Any, mailoutbox: list[Any], start: datetime, expected: list[str]
) -> None:
    make_threads(mailbox, 1, Category.ACTION_REQUIRED)
    with frozen_time(start):
        change_preference(mailbox.firm.pk, owner.pk, time_zone=VIENNA, digest_at=time(2, 30))
    assert days_of_delivery(mailbox, start, mailoutbox) == expected


def test_quiet_hours_hold_it_back(mailbox: Mailbox, owner: Any, mailoutbox: list[Any]) -> None:
    make_threads(mailbox, 1, Category.ACTION_REQUIRED)
    want(mailbox, owner, quiet_from=time(22), quiet_until=time(9))
    with morning() as clock:
        enqueue_due()
        testing.drain()
        waits = only(jobs("digest_delivery"))
        # 09:00 in Vienna.
        assert (waits.scheduled_at, waits.attempts) == (datetime(2099, 1, 15, 8, tzinfo=UTC), 0)
        assert mailoutbox == []
        clock.move_to(waits.scheduled_at)
        testing.drain()
    assert len(mailoutbox) == 1


@pytest.mark.parametrize("zone", ["Pacific/Auckland", "Asia/Tokyo", "America/New_York"])
def test_one_that_waits_comes_although_its_person_is_in_another_zone_by_then(
    mailbox: Mailbox, owner: Any, mailoutbox: list[Any], zone: str
) -> None:
    make_threads(mailbox, 1, Category.ACTION_REQUIRED)
    quiet = {"quiet_from": time(22), "quiet_until": time(7)}
    want(mailbox, owner, time(6), time_zone="Pacific/Honolulu", **quiet)
    with frozen_time(datetime(2099, 1, 15, 16, tzinfo=UTC)) as clock:
        assert enqueue_due() == 1
        testing.drain()
        clock.tick(minutes=30)
        change_preference(mailbox.firm.pk, owner.pk, time_zone=zone)
        # In Auckland, the time of the next day passes while the digest waits.
        for _ in range(34):
            enqueue_due()
            testing.drain()
            clock.tick(minutes=30)
    assert len(mailoutbox) == 1


def test_another_time_on_the_same_day_brings_no_second_one(
    mailbox: Mailbox, owner: Any, mailoutbox: list[Any]
) -> None:
    make_threads(mailbox, 1, Category.ACTION_REQUIRED)
    want(mailbox, owner)
    with morning() as clock:
        enqueue_due()
        testing.drain()
        change_preference(mailbox.firm.pk, owner.pk, digest_at=time(18))
        clock.tick(hours=12)
        assert enqueue_due() == 0
        testing.drain()
        assert len(mailoutbox) == 1
        clock.tick(hours=24)
        assert enqueue_due() == 1
        testing.drain()
    assert len(mailoutbox) == 2


def test_one_that_is_late_comes_and_one_of_yesterday_does_not(
    mailbox: Mailbox, owner: Any, mailoutbox: list[Any]
) -> None:
    make_threads(mailbox, 1, Category.ACTION_REQUIRED)
    want(mailbox, owner)
    with morning() as clock:
        enqueue_due()
        clock.tick(hours=24)
        # No worker ran for a day, so yesterday's job is still there when today's is enqueued.
        enqueue_due()
        clock.tick(hours=3)
        testing.drain()
    assert len(mailoutbox) == 1
    assert [result.get("reason") for result in results()].count(delivery.PAST) == 1


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    "name", ["addressee", "digest_of", "send_by_every_channel", "send_messages"]
)
def test_a_worker_killed_at_each_step_delivers_in_the_end(
    mailbox: Mailbox,
    owner: Any,
    monkeypatch: pytest.MonkeyPatch,
    mailoutbox: list[Any],
    name: str,
    after: bool,
) -> None:
    make_threads(mailbox, 1, Category.ACTION_REQUIRED)
    want(mailbox, owner)
    place = EmailBackend if name == "send_messages" else delivery
    kill_once(monkeypatch, place, name, after=after)
    with morning() as clock:
        enqueue_due()
        job = only(jobs("digest_delivery"))
        attempt_of(job)
        clock.tick(hours=1)
        testing.drain()
        assert enqueue_due() == 0
    # If the process ends between the server's answer and its record, nobody can tell, so the same
    # Message-ID is sent twice.
    assert len(mailoutbox) == (2 if name == "send_messages" and after else 1)
    assert len({letter.extra_headers["Message-ID"] for letter in mailoutbox}) == 1
    assert only(jobs(live=False), pk=job.pk).status == "completed"


@pytest.mark.req("M-23")
def test_only_the_owner_and_who_has_a_grant_get_one(
    mailbox: Mailbox, owner: Any, mailoutbox: list[Any]
) -> None:
    make_threads(mailbox, 1, Category.ACTION_REQUIRED)
    admin, helper, glass = (
        UserFactory(member_of=mailbox.firm, member_of__role=Role.ADMIN) for _ in range(3)
    )
    grant_content(mailbox.account, helper, by=SERVICE)
    break_glass(mailbox.account, reason="an outage", by=Actor("admin", glass))
    for person in (owner, admin, helper, glass):
        want(mailbox, person)
    with morning() as clock:
        assert enqueue_due() == 2
        withdraw_content(mailbox.account, helper, by=SERVICE)
        testing.drain()
        assert [letter.to for letter in mailoutbox] == [[owner.email]]
        # A mailbox that the whole firm reads has no owner, so it has no digest.
        with firm_scope(mailbox.firm):
            type(mailbox.account).objects.update(owner=None, shared=True)
        clock.tick(hours=24)
        assert enqueue_due() == 0
    assert {"skipped": True, "reason": delivery.NOT_THEIRS} in results()


def test_each_of_several_mailboxes_has_its_own(
    mailbox: Mailbox, owner: Any, mailoutbox: list[Any]
) -> None:
    with firm_scope(mailbox.firm):
        second = type(mailbox.account).objects.create(
            firm=mailbox.firm, address="second@acme.example", owner=owner
        )
        gone = type(mailbox.account).objects.create(
            firm=mailbox.firm, address="gone@acme.example", owner=owner, active=False
        )
    for account in (mailbox.account, second, gone):
        make_threads(Mailbox(mailbox.firm, account, mailbox.simulator), 1, Category.ACTION_REQUIRED)
    want(mailbox, owner)
    with morning():
        assert enqueue_due() == 2
        testing.drain()
    subjects = {letter.subject for letter in mailoutbox}
    assert subjects == {
        f"[Mailroom] {address}: 1 waits for you"
        for address in (mailbox.account.address, "second@acme.example")
    }


def test_discord_is_told_numbers_alone(
    mailbox: Mailbox, owner: Any, settings: Settings, mailoutbox: list[Any]
) -> None:
    make_threads(mailbox, 2, Category.ACTION_REQUIRED)
    settings.WEBHOOK_PRIVATE_HOSTS = frozenset({"127.0.0.1"})
    with receiver() as discord:
        want(mailbox, owner, email=False, discord_webhook=discord.url)
        with morning():
            enqueue_due()
            testing.drain()
        told = discord.received[-1].json["content"]
    assert "2 wait for you" in told
    assert f"/admin/mail/mailaccount/{mailbox.account.pk}/briefing/" in told
    assert "action_required 0" not in told
    assert mailoutbox == []


def test_who_left_or_wants_none_gets_none(
    mailbox: Mailbox, owner: Any, mailoutbox: list[Any]
) -> None:
    make_threads(mailbox, 1, Category.ACTION_REQUIRED)
    want(mailbox, owner)
    with morning():
        enqueue_due()
        reset_preference(only(stored(NotificationPreference)))
        job = run_job(only(jobs("digest_delivery")))
    assert job.result == {"skipped": True, "reason": delivery.SWITCHED_OFF}
    want(mailbox, owner)
    with morning() as clock:
        clock.tick(hours=24)
        with firm_scope(mailbox.firm):
            Membership.objects.filter(user=owner).delete()
        assert enqueue_due() == 0
    assert mailoutbox == []


def test_a_time_zone_that_vanished_holds_up_nobody_elses_digest(
    mailbox: Mailbox, owner: Any, mailoutbox: list[Any]
) -> None:
    other = new_member(mailbox.firm, Role.OPERATOR)
    want(mailbox, other)
    want(mailbox, owner)
    with firm_scope(mailbox.firm):
        NotificationPreference.objects.filter(user=other).update(time_zone="Nowhere/Gone")
    with morning():
        assert enqueue_due() == 1
        assert only(jobs("digest_delivery")).user_id == owner.pk
