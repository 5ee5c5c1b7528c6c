"""A job of each type of the design's table fails, is retried, dead-lettered, shown and repaired."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from pytest_django import Settings

from jobs import registry
from jobs.errors import Retryable
from jobs.models import DeadLetterQueue, JobQueue, Schedule
from jobs.operations import dead_letters
from jobs.queue import cancel
from jobs.registry import JobType
from jobs.schedules.defaults import store_default_schedules
from jobs.states import Category, DeadReason
from jobs.testing import frozen_time, run_job
from mail.models import Message
from tenants.models import Role
from tests.factories.tenants import UserFactory, new_member
from tests.mail.handlers.job_table import TABLE, Office, Row
from tests.mail.llm.model_server import model_server
from tests.mail.mail_kit import Mailbox, jobs, only, stored
from tests.queue_kit import locks
from tests.support.receiver import receiver

pytestmark = pytest.mark.django_db

WHY = "the other side is away"


@pytest.fixture
def office(mailbox: Mailbox, settings: Settings) -> Iterator[Office]:
    """Return a mailbox with all that its jobs need: a model, a receiver of webhooks, a person."""
    settings.GMAIL_PUBSUB_TOPIC = "projects/acme/topics/gmail"
    with receiver() as hook, model_server() as model:
        settings.WEBHOOK_PRIVATE_HOSTS = [f"127.0.0.1:{hook.port}"]
        person = new_member(mailbox.firm, Role.ADMIN)
        yield Office(mailbox, person, hook.url, model.url, settings)


@pytest.fixture
def staff(db: None) -> Client:
    """Return the browser of platform staff."""
    client = Client()
    client.force_login(UserFactory(username="root", platform_staff=True))
    return client


def leave_alone(job: JobQueue) -> None:
    """Cancel every other job, because one of them could hold the same lock."""
    for other in jobs():
        if other.pk != job.pk:
            cancel(other)


def named(template: str, job: JobQueue) -> str:
    """Fill in the template's ids from the job's payload; the thread's id may be its message's."""
    about: dict[str, Any] = dict(job.payload)
    if "{thread_id}" in template and "thread_id" not in about:
        about["thread_id"] = only(stored(Message)).thread_id
    return template.format_map(about)


def die(job: JobQueue, row: Row, declared: JobType) -> list[float]:
    """Let each attempt fail when it is due, and check that it holds its lock; return the delays."""

    def fail(_: Any, __: Any) -> None:
        assert [one.lock_key for one in locks()] == ([job.lock_key] if job.lock_key else [])
        raise Retryable(WHY)

    registry._types[row.job_type] = replace(declared, handler=fail)
    delays = []
    for number in range(1, row.max_attempts + 1):
        with frozen_time(job.scheduled_at + timedelta(milliseconds=1)) as clock:
            job = run_job(job.pk)
            assert (job.attempts, locks()) == (number, [])
            if job.status == "pending":
                delays.append((job.scheduled_at - clock.now).total_seconds())
    assert job.status == "dlq", job.last_error
    registry._types[row.job_type] = declared
    return delays


def expected_delays(row: Row, most: float) -> list[float]:
    """Return the delays of the type's policy: doubled each time, up to `most`."""
    return [min(row.base_delay_seconds * 2**number, most) for number in range(row.max_attempts - 1)]


def shown(client: Client, job: JobQueue, letter: DeadLetterQueue, row: Row) -> None:
    """Check that the pages and lists of the job and its dead letter show them."""
    for model, pk in (("jobqueue", job.pk), ("deadletterqueue", letter.pk)):
        pages = [
            reverse(f"admin:jobs_{model}_change", args=[pk]),
            reverse(f"admin:jobs_{model}_changelist"),
        ]
        for page in pages:
            response = client.get(page)
            assert response.status_code == 200, page
            assert row.job_type in response.content.decode(), page
        assert WHY in client.get(pages[0]).content.decode(), pages[0]


@pytest.mark.req("J-02", "J-10", "J-12")
@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.job_type)
def test_each_type_fails_is_retried_dies_is_shown_and_runs_when_reprocessed(
    row: Row, office: Office, staff: Client, job_types: dict[str, JobType]
) -> None:
    job = row.enqueue(office)
    leave_alone(job)
    declared = registry.get(row.job_type)
    assert (job.job_type, job.category, declared.category) == (
        row.job_type, row.category, row.category,
    )  # fmt: skip
    assert (job.max_attempts, declared.once_only) == (row.max_attempts, row.once_only)
    if row.lock:
        assert job.lock_key == named(row.lock, job)

    delays = die(job, row, declared)
    assert delays == pytest.approx(expected_delays(row, declared.retry.max_delay_seconds))
    letter = only(stored(DeadLetterQueue), original_job_id=job.pk)
    assert (letter.reason, letter.error_class) == (DeadReason.EXHAUSTED, "jobs.errors.Retryable")
    shown(staff, job, letter, row)

    with frozen_time(letter.moved_at + timedelta(hours=1)):
        dead_letters.reprocess(letter.pk)
        job = run_job(job.pk)
    assert (job.status, job.series) == ("completed", 2), job.last_error
    assert not (job.result or {}).get("skipped"), job.result


@pytest.mark.req("J-02")
def test_every_type_of_the_table_is_built() -> None:
    built = {declared.name for declared in registry.all_types()}
    rows = {row.job_type for row in TABLE}
    assert rows - built == set()
    assert {row.category for row in TABLE} == set(Category)


# The default schedules: type, interval in seconds, group, and a part of the payload.
SHIPPED = [
    ("watch.renew.gmail", 86_400, "mailbox", {}),
    ("sync", 900, "mailbox", {}),
    ("sync", 3_600, "mailbox", {"force_full": True}),
    ("labels.sync.gmail", 3_600, "mailbox", {}),
    ("reminders.enqueue_due", 60, "", {}),
    ("follow_ups.find", 3_600, "", {}),
    ("digests.enqueue_due", 60, "", {}),
    ("agents.enqueue_due", 60, "", {}),
    ("approvals.expire", 60, "", {}),
    ("exports.expire", 3_600, "", {}),
    ("purge_jobs", 86_400, "", {}),
    ("dlq_age_alert", 900, "", {}),
]


@pytest.mark.req("S-02")
def test_all_shipped_schedules_are_stored_with_their_intervals(system_firm: Any) -> None:
    store_default_schedules()
    rows = [
        (row.job_type, row.interval_seconds, row.group_name, row.payload)
        for row in stored(Schedule)
        if row.firm_id == system_firm.pk and row.enabled and row.shipped
    ]
    for job_type, seconds, group, payload in SHIPPED:
        version = registry.get(job_type).version
        assert (job_type, seconds, group, {"version": version, **payload}) in rows
