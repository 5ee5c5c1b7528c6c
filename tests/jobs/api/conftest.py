"""Two firms with rows in every table of the queue, and an API key for each role in the first."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.http import HttpResponse
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
    RateLimit,
    Schedule,
    Worker,
)
from tenants import throttles
from tenants.api import keys
from tenants.audit import SERVICE
from tenants.encryption import encrypt_field
from tenants.models import AuditEntry, Firm, Role
from tenants.scope import all_firms
from tests.factories.jobs import (
    DeadLetterQueueFactory,
    JobQueueFactory,
    WorkerFactory,
    envelope,
    record_death,
)
from tests.factories.tenants import UserFactory, new_member
from tests.support.rehearsals import without_process

ROOT = "/api/v1/jobs/admin/"


class Api:
    """A caller of the API: with an API key, or with a browser's session."""

    def __init__(self, key: str = "", *, client: Client | None = None) -> None:
        self.client = client or Client(raise_request_exception=False)
        self.headers = {"Authorization": f"Bearer {key}"} if key else {}

    def get(self, path: str, query: Mapping[str, Any] | None = None, **headers: str) -> Any:
        return self.client.get(ROOT + path, query, headers={**self.headers, **headers})

    def post(self, path: str, body: object = None, **headers: str) -> Any:
        return self.post_raw(path, b"" if body is None else json.dumps(body).encode(), **headers)

    def patch(self, path: str, body: object, **headers: str) -> Any:
        return self.client.patch(
            ROOT + path,
            json.dumps(body).encode(),
            content_type="application/json",
            headers={**self.headers, **headers},
        )

    def post_raw(self, path: str, body: bytes, **headers: str) -> Any:
        return self.client.post(
            ROOT + path,
            body,
            content_type=headers.pop("content_type", "application/json"),
            headers={**self.headers, **headers},
        )

    def results(self, path: str, query: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        """Return the rows of a list that must answer 200."""
        answer = self.get(path, query)
        assert answer.status_code == 200, answer.content
        rows: list[dict[str, Any]] = answer.json()["results"]
        return rows


def problem(answer: HttpResponse, status: int) -> dict[str, Any]:
    """Return the problem details of an answer, after checking its status and its form."""
    assert answer.status_code == status, answer.content[:500]
    assert answer["Content-Type"] == "application/problem+json"
    found: dict[str, Any] = json.loads(answer.content)
    assert found.keys() == {
        "type", "title", "status", "detail", "code", "correlation_id", "errors",
    }  # fmt: skip
    assert found["status"] == status
    assert found["correlation_id"] == answer["X-Correlation-ID"]
    assert all(fault.keys() == {"field", "code", "message"} for fault in found["errors"])
    return found


def fields(answer: HttpResponse, status: int = 400) -> dict[str, str]:
    """Return the code of each field that a problem names."""
    return {fault["field"]: fault["code"] for fault in problem(answer, status)["errors"]}


def audit_log() -> list[AuditEntry]:
    """Return the audit log of operators, oldest first."""
    with all_firms("test"):
        return list(AuditEntry.objects.exclude(act__startswith="api_key.").order_by("id"))


def key_for(firm: Firm, role: Role, username: str = "") -> str:
    """Return the API key of a new member of the firm."""
    user = new_member(firm, role, username)
    return keys.issue(user, firm, role, lifetime=None, by=SERVICE)[0]


@pytest.fixture(autouse=True)
def tried_rehearsals() -> Iterator[list[Any]]:
    """Replace the process of rehearsals; return the list of what was to be rehearsed."""
    with without_process() as tried:
        yield tried


@dataclass(frozen=True)
class FirmRows:
    """The rows of one firm in the queue's tables; `canary` is a text that is in all of them."""

    firm: Firm
    canary: str
    waiting: JobQueue
    dead: JobQueue
    dead_letter: DeadLetterQueue
    lock: ConcurrencyLock
    schedule: Schedule
    paused_schedule: Schedule
    pause: Pause
    rate_limit: RateLimit
    breaker: CircuitBreaker
    bulk_run: BulkRun
    batch: Batch
    endpoint: NotificationEndpoint


def _schedule(firm: Firm, name: str, **columns: Any) -> Schedule:
    row: Schedule = Schedule.objects.create(
        firm=firm, name=name, job_type="noop", cron="0 3 * * *", last_error=name, **columns
    )
    return row


def _endpoint(firm: Firm, name: str) -> NotificationEndpoint:
    row = NotificationEndpoint(
        firm=firm, name=name, channel="webhook", target="https://hooks.example/x", events=[]
    )
    encrypt_field(row, "signing_key", f"whsec_{name}")
    row.save()
    Delivery.objects.create(
        firm=firm,
        endpoint=row,
        channel="webhook",
        event=name,
        recipient=name,
        job_id=row.pk,
        attempt=1,
        error=name,
    )
    return row


def fill(firm: Firm) -> FirmRows:
    """Give the firm a row in every table, with its canary in every text."""
    now = timezone.now()
    canary = f"canary-{firm.slug}"
    payload = {**envelope(firm.pk), "correlation_id": canary}
    texts = {"correlation_id": canary, "payload": payload}
    waiting = JobQueueFactory(firm=firm, idempotency_key=f"{canary}:welcome", **texts)
    dead = JobQueueFactory(
        firm=firm,
        status="dlq",
        category="export",
        attempts=1,
        last_error=f"{canary}: it broke",
        completed_at=now,
        result={"text": canary},
        **texts,
    )
    JobQueueFactory(firm=firm, parent_id=dead.pk, status="completed", completed_at=now, **texts)
    with all_firms("test"):
        record_death(dead, canary, f"Traceback: {canary}")
        JobStep.objects.create(firm=firm, job=dead, name=canary, result={"text": canary})
        counted = {"firm": firm, "category": "maintenance", "completed": firm.pk * 1000 + 7}
        minute = now.replace(second=0, microsecond=0)
        JobMinute.objects.create(**counted, minute=minute)
        JobHour.objects.create(**counted, minute=minute.replace(minute=0))
        return FirmRows(
            firm=firm,
            canary=canary,
            waiting=waiting,
            dead=dead,
            dead_letter=DeadLetterQueueFactory(
                original_job=dead,
                error_class="ValueError",
                error=f"{canary}: it broke",
                fingerprint="abc123",
            ),
            schedule=_schedule(firm, canary),
            paused_schedule=_schedule(firm, f"{canary} paused", enabled=False),
            lock=ConcurrencyLock.objects.create(
                firm=firm, lock_key=f"{canary}:lock", holder_id=canary, fencing_token=firm.pk
            ),
            pause=Pause.objects.create(
                firm=firm, category="export", reason=canary, paused_by=canary
            ),
            batch=Batch.objects.create(firm=firm, name=canary, correlation_id=canary),
            bulk_run=BulkRun.objects.create(
                firm=firm,
                operation="reprocess",
                selection={"filter": {"search": canary}},
                reason=canary,
                total=1,
                job_id=waiting.pk,
                correlation_id=canary,
                door="service",
                started_by_name=canary,
            ),
            endpoint=_endpoint(firm, canary),
            rate_limit=RateLimit.objects.create(
                firm=firm, job_type=canary, amount=5, per_seconds=60, burst=3
            ),
            breaker=CircuitBreaker.objects.create(
                firm=firm,
                job_type=canary,
                state="open",
                trips=2,
                fingerprint=canary,
                window_ends_at=now,
                opened_at=now,
                probe_at=now + timedelta(minutes=1),
            ),
        )


@pytest.fixture
def acme(firm: Firm) -> FirmRows:
    """Return the first firm's rows."""
    return fill(firm)


@pytest.fixture
def globex(other_firm: Firm) -> FirmRows:
    """Return the second firm's rows."""
    return fill(other_firm)


@pytest.fixture
def worker(acme: FirmRows, globex: FirmRows) -> Worker:
    """Return a live worker that runs a job of each firm; its row also names one that has ended."""
    found = WorkerFactory(job_types=["noop"])
    in_flight = [
        JobQueueFactory(firm=rows.firm, status="processing", worker_id=found.pk)
        for rows in (acme, globex)
    ]
    found.running = [str(job.pk) for job in [*in_flight, acme.dead]]
    found.save()
    return found


@pytest.fixture
def viewer(acme: FirmRows) -> Api:
    return Api(key_for(acme.firm, Role.VIEWER))


@pytest.fixture
def operator(acme: FirmRows) -> Api:
    return Api(key_for(acme.firm, Role.OPERATOR))


@pytest.fixture
def developer(acme: FirmRows) -> Api:
    return Api(key_for(acme.firm, Role.DEVELOPER))


@pytest.fixture
def admin(acme: FirmRows) -> Api:
    return Api(key_for(acme.firm, Role.ADMIN))


@pytest.fixture
def staff(db: None) -> Api:
    """Return a member of platform staff in a browser, without the CSRF check."""
    client = Client(raise_request_exception=False)
    client.force_login(UserFactory(username="root", platform_staff=True))
    return Api(client=client)


def at(monkeypatch: pytest.MonkeyPatch, second: int) -> None:
    """Stop the clock that counts requests, `second` seconds after the beginning of a minute."""
    now = {connection.vendor: str(1_800_000_000 + second)}
    monkeypatch.setattr(throttles, "_NOW", now)
