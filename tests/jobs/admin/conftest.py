"""Two firms with rows in every table of the queue, and users who see one firm, both or none."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from jobs.models import (
    Batch,
    BulkRun,
    CircuitBreaker,
    ConcurrencyLock,
    DeadLetterQueue,
    Delivery,
    JobHour,
    JobMinute,
    JobQueue,
    JobStep,
    NotificationEndpoint,
    Pause,
    RateBucket,
    RateLimit,
    Schedule,
    ScheduleRun,
    Worker,
)
from tenants.api import keys
from tenants.audit import SERVICE
from tenants.models import ApiKey, AuditEntry, Firm, Membership, Role
from tenants.scope import all_firms
from tests.factories.jobs import (
    DeadLetterQueueFactory,
    JobQueueFactory,
    WorkerFactory,
    envelope,
    record_death,
)
from tests.factories.tenants import MembershipFactory, UserFactory, new_member
from tests.support.rehearsals import without_process


@pytest.fixture(autouse=True)
def tried_rehearsals() -> Iterator[list[Any]]:
    """Replace the process of rehearsals; return the list of what was to be rehearsed."""
    with without_process() as tried:
        yield tried


@dataclass(frozen=True)
class FirmRows:
    """The rows of one firm in the queue's tables."""

    firm: Firm
    waiting: JobQueue
    dead: JobQueue
    dead_letter: DeadLetterQueue
    lock: ConcurrencyLock
    breaker: CircuitBreaker
    pause: Pause
    rate_limit: RateLimit
    schedule: Schedule
    schedule_run: ScheduleRun
    batch: Batch
    bulk_run: BulkRun
    endpoint: NotificationEndpoint
    delivery: Delivery
    membership: Membership
    api_key: ApiKey
    audit_entry: AuditEntry

    def rows(self) -> list[Any]:
        """Return a row of each kind that has a page."""
        rows = [self.waiting, self.dead, self.dead_letter, self.lock, self.breaker, self.firm]
        rows += [self.pause, self.rate_limit, self.schedule, self.schedule_run, self.bulk_run]
        rows += [self.endpoint, self.delivery, self.batch]
        return [*rows, self.membership, self.api_key, self.audit_entry]

    def pages(self) -> list[tuple[str, Any]]:
        """Return URL name and id of each page that every member may read."""
        return [(url_name(row), row.pk) for row in self.rows() if row is not self.audit_entry]


def url_name(row: Any) -> str:
    """Return the first part of the names of the row's admin pages."""
    return f"{row._meta.app_label}_{row._meta.model_name}"


def _fill(firm: Firm, username: str) -> FirmRows:
    now = timezone.now()
    user = UserFactory(username=username, email=username, is_staff=True)
    waiting = JobQueueFactory(firm=firm, idempotency_key=f"welcome:{firm.slug}")
    dead = JobQueueFactory(
        firm=firm,
        status="dlq",
        category="export",
        attempts=1,
        last_error=f"secret of {firm.slug}",
        payload={**envelope(firm.pk), "correlation_id": f"import of {firm.slug}"},
        result={"of": firm.slug},
        completed_at=now,
    )
    with all_firms("test"):
        record_death(dead, f"secret of {firm.slug}", "Traceback: the whole story")
        JobStep.objects.create(
            firm=firm,
            job=dead,
            name="fetch",
            result={"pages": 3},
            started_at=now - timedelta(minutes=3),
            finished_at=now,
        )
        counted = {"firm": firm, "category": "maintenance", "completed": 7}
        minute = now.replace(second=0, microsecond=0)
        JobMinute.objects.create(**counted, minute=minute)
        # These counts are older than the charts show.
        JobHour.objects.create(**counted, minute=minute.replace(minute=0) - timedelta(days=30))
        RateBucket.objects.create(
            firm=firm, job_type="noop", tokens=2.5, granted=0, refilled_at=now
        )
        membership = MembershipFactory(firm=firm, user=user, role=Role.VIEWER)
        _, api_key = keys.issue(user, firm, Role.VIEWER, lifetime=None, by=SERVICE)
        return FirmRows(
            firm=firm,
            waiting=waiting,
            dead=dead,
            dead_letter=DeadLetterQueueFactory(
                original_job=dead,
                error_class="ValueError",
                error=f"secret of {firm.slug}",
                fingerprint="abc123",
            ),
            lock=ConcurrencyLock.objects.create(
                firm=firm,
                lock_key=f"export:{firm.slug}",
                holder_id=f"job:{waiting.pk}",
                fencing_token=firm.pk,
            ),
            breaker=CircuitBreaker.objects.create(
                firm=firm,
                job_type="sync",
                state="open",
                trips=1,
                fingerprint=f"secret of {firm.slug}",
                window_ends_at=timezone.now(),
                opened_at=timezone.now(),
                probe_at=timezone.now(),
            ),
            pause=Pause.objects.create(
                firm=firm,
                category="export",
                reason=f"secret of {firm.slug}",
                paused_by=username,
            ),
            schedule=(
                nightly := Schedule.objects.create(
                    firm=firm,
                    name=f"nightly of {firm.slug}",
                    job_type="noop",
                    cron="30 2 * * *",
                    time_zone="Europe/Vienna",
                    payload={"text": f"secret of {firm.slug}"},
                )
            ),
            schedule_run=ScheduleRun.objects.create(
                firm=firm,
                schedule=nightly,
                job_type="noop",
                correlation_id="c-1",
                error=f"secret of {firm.slug}",
            ),
            batch=Batch.objects.create(
                firm=firm, name=f"secret of {firm.slug}", correlation_id="c-1"
            ),
            bulk_run=BulkRun.objects.create(
                firm=firm,
                operation="reprocess",
                selection={"ids": 1},
                reason=f"secret of {firm.slug}",
                total=1,
                job_id=waiting.pk,
                correlation_id="c-1",
                door="admin",
                started_by_name=username,
            ),
            endpoint=NotificationEndpoint.objects.create(
                firm=firm, name=f"pager of {firm.slug}", channel="email", target=username
            ),
            delivery=Delivery.objects.create(
                firm=firm,
                channel="email",
                event=f"event of {firm.slug}",
                recipient=username,
                job_id=waiting.pk,
                attempt=1,
                error=f"secret of {firm.slug}",
            ),
            rate_limit=RateLimit.objects.create(
                firm=firm, job_type="noop", amount=5, per_seconds=60, burst=5
            ),
            membership=membership,
            api_key=api_key,
            audit_entry=AuditEntry.objects.get(firm=firm),
        )


@pytest.fixture
def acme(firm: Firm) -> FirmRows:
    """Return the first firm's rows."""
    return _fill(firm, "ann@acme.example")


@pytest.fixture
def globex(other_firm: Firm) -> FirmRows:
    """Return the second firm's rows."""
    return _fill(other_firm, "bob@globex.example")


@pytest.fixture
def live_worker(db: None) -> Worker:
    """Return a worker with a running lease."""
    return WorkerFactory(job_types=["noop"])


def _signed_in(user: Any) -> Client:
    client = Client()
    client.force_login(user)
    return client


@pytest.fixture
def member(acme: FirmRows) -> Client:
    """Return the browser of a member of the first firm, without any Django permission."""
    return _signed_in(acme.membership.user)


def browser_of(firm: Firm, role: Role, *, strict: bool = False) -> Client:
    """Return the browser of a new member; with `strict`, it checks the CSRF token."""
    client = Client(enforce_csrf_checks=strict)
    client.force_login(new_member(firm, role))
    return client


@pytest.fixture
def operator(acme: FirmRows) -> Client:
    """Return the browser of an operator of the first firm."""
    return browser_of(acme.firm, Role.OPERATOR)


@pytest.fixture
def firm_admin(acme: FirmRows) -> Client:
    """Return the browser of an admin of the first firm."""
    return browser_of(acme.firm, Role.ADMIN)


@pytest.fixture
def staff(db: None) -> Client:
    """Return the browser of a member of platform staff, who sees every firm."""
    return _signed_in(UserFactory(username="root", platform_staff=True))


@pytest.fixture
def stranger(db: None) -> Client:
    """Return the browser of a user who may use the admin and is a member of no firm."""
    return _signed_in(UserFactory(username="nobody", is_staff=True))


@pytest.fixture
def more_jobs() -> Callable[[Firm, int], None]:
    """Return a function that gives a firm more jobs."""

    def add(firm: Firm, count: int) -> None:
        for _ in range(count):
            JobQueueFactory(firm=firm)

    return add
