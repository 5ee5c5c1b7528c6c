"""Fills a database with jobs of every kind, written straight to the tables."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random

from django.db import connection
from uuid_utils.compat import uuid7

from jobs.models import Attempt, DeadLetterQueue, JobHour, JobMinute, JobQueue
from jobs.states import AttemptEnd, Category, DeadReason, Status
from tenants.models import Firm
from tenants.scope import all_firms

FIRMS = 20
CHUNK = 5_000
ERRORS = ("ConnectionError", "mail.errors.MailboxGone", "ValueError", "TimeoutError")


def seed(*, finished: int, waiting: int, dead: int, minutes: int = 120) -> list[Firm]:
    """Create that many jobs of twenty firms, with history and counters; return the firms."""
    rng = Random(1)
    now = datetime.now(UTC)
    firms = [Firm.objects.create(name=f"Firm {n}", slug=f"firm-{n}") for n in range(FIRMS)]
    for start in range(0, finished, CHUNK):
        _insert(
            [_job(rng, firms, now, Status.COMPLETED) for _ in range(min(CHUNK, finished - start))]
        )
    for start in range(0, waiting, CHUNK):
        _insert([_job(rng, firms, now, Status.PENDING) for _ in range(min(CHUNK, waiting - start))])
    buried = [_job(rng, firms, now, Status.DLQ) for _ in range(dead)]
    _insert(buried)
    with all_firms("a benchmark's rows"):
        DeadLetterQueue.objects.bulk_create([_dead_letter(rng, job) for job in buried], CHUNK)
        Attempt.objects.bulk_create([_attempt(rng, job) for job in buried], CHUNK)
        JobMinute.objects.bulk_create(_minutes(firms, now, minutes), CHUNK)
        JobHour.objects.bulk_create(_hours(firms, now), CHUNK)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return firms


def _insert(jobs: list[JobQueue]) -> None:
    with all_firms("a benchmark's rows"):
        JobQueue.objects.bulk_create(jobs, CHUNK)


def _job(rng: Random, firms: list[Firm], now: datetime, status: Status) -> JobQueue:
    firm = rng.choice(firms)
    live = status is Status.PENDING
    due = now - timedelta(seconds=rng.uniform(0, 86_400))
    return JobQueue(
        job_id=uuid7(),
        firm_id=firm.pk,
        category=rng.choice(list(Category)).value,
        job_type=rng.choice(("noop", "sync", "ingest.gmail", "classify")),
        payload_version="1.0",
        payload={"tenant_id": firm.pk, "version": "1.0", "correlation_id": str(uuid7())},
        correlation_id=str(uuid7()),
        status=status.value,
        attempts=0 if live else 1,
        last_error="" if status is not Status.DLQ else "the mailbox did not answer",
        result={} if status is Status.COMPLETED else None,
        scheduled_at=due + timedelta(hours=12) if live else due,
        completed_at=None if live else due,
        ready=live,
    )


def _dead_letter(rng: Random, job: JobQueue) -> DeadLetterQueue:
    return DeadLetterQueue(
        firm_id=job.firm_id,
        original_job=job,
        job_series=1,
        reason=rng.choice(list(DeadReason)).value,
        error_class=rng.choice(ERRORS),
        error="the mailbox did not answer",
        fingerprint=f"{rng.randrange(40):016x}",
    )


def _attempt(rng: Random, job: JobQueue) -> Attempt:
    return Attempt(
        firm_id=job.firm_id,
        job=job,
        series=1,
        number=1,
        end=AttemptEnd.DEAD_LETTERED.value,
        error_class=rng.choice(ERRORS),
        message="the mailbox did not answer",
    )


def _minutes(firms: list[Firm], now: datetime, count: int) -> list[JobMinute]:
    start = now.replace(second=0, microsecond=0)
    return [
        JobMinute(
            firm_id=firm.pk,
            category=category.value,
            minute=start - timedelta(minutes=minute),
            completed=3,
            failed=minute % 2,
        )
        for firm in firms
        for category in Category
        for minute in range(count)
    ]


def _hours(firms: list[Firm], now: datetime) -> list[JobHour]:
    start = now.replace(minute=0, second=0, microsecond=0)
    return [
        JobHour(
            firm_id=firm.pk,
            category=category.value,
            minute=start - timedelta(hours=hour),
            completed=180,
            failed=30,
        )
        for firm in firms
        for category in Category
        for hour in range(24)
    ]
