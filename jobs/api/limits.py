"""`pauses/`, `rate-limits/`, `breakers/` and `locks/`: what holds jobs back, and its operations."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiResponse
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.api.schema import operation
from jobs.api.query import LockQuery
from jobs.api.requests import BreakerBody, ObligatoryReason, PauseBody, RateLimitBody
from jobs.api.views import QueueView, example, list_operation, row_operation
from jobs.models import CircuitBreaker, ConcurrencyLock, Pause, RateLimit
from jobs.operations import breakers, limits, locks
from jobs.queries.filters import filter_locks
from jobs.queries.lists import held_locks
from jobs.queries.serializers.limits import (
    BreakerSerializer,
    LockSerializer,
    PauseSerializer,
    RateLimitSerializer,
)
from tenants.models import Role


class LimitView(QueueView):
    """Limits of a firm or of every firm; the latter are the system firm's rows."""

    def get_object(self, needed: Role = Role.VIEWER) -> Any:
        """Return the row; for a limit of every firm, to platform staff alone."""
        row = super().get_object(needed)
        if row.everywhere:
            self.check_platform_staff()
        return row


class Pauses(LimitView):
    """The pauses of the caller's firms."""

    resource = tag = "pauses"
    model, serializer = Pause, PauseSerializer

    list = list_operation(
        "List pauses",
        "The latest first. Pauses for every firm are only listed for platform staff; others find "
        "them in `why_waiting` of each job.",
        serializer=PauseSerializer,
        rows="pauses",
    )
    resume = row_operation(
        limits.resume,
        "Resume work",
        "Ends the pause; the jobs that it held back may start. Needs the role operator; a pause "
        "for every firm is only for platform staff.",
        answer=OpenApiResponse(PauseSerializer, "The pause as it was."),
        example=example("Resume", reason="The mail provider answers again"),
    )

    @operation(
        "Pause work",
        "During the pause no job of the firm that matches category, type and limit key starts. "
        "Jobs that are running finish. Needs the role operator; pausing everywhere is only for "
        "platform staff. 409 if a pause of the same jobs exists.",
        body=PauseBody,
        answers={HTTPStatus.OK: OpenApiResponse(PauseSerializer, "The pause.")},
        example=example(
            "Until the provider is back",
            category="ingestion",
            reason="The mail provider refuses every request",
            until="2099-03-02T12:00:00Z",
        ),
    )
    def create(self, request: Request) -> Response:
        body = self.get_body(PauseBody)
        firm = self.pop_firm_or_every(body, Role.OPERATOR)
        return Response(self.represent(limits.pause(firm=firm, by=self.actor, **body)))


class RateLimits(LimitView):
    """The rate limits of the caller's firms."""

    resource, tag = "rate_limits", "rate limits"
    model, serializer = RateLimit, RateLimitSerializer

    list = list_operation(
        "List rate limits",
        "The latest first. Limits for every firm are only listed for platform staff.",
        serializer=RateLimitSerializer,
        rows="rate limits",
    )
    clear = row_operation(
        limits.remove_rate_limit,
        "Clear a rate limit",
        "Jobs that wait for this limit start as soon as workers are free. Needs the role admin; a "
        "limit for every firm is only for platform staff.",
        role=Role.ADMIN,
        answer=OpenApiResponse(RateLimitSerializer, "The limit as it was."),
        example=example("Clear", reason="The provider has raised its quota"),
    )

    @operation(
        "Set a rate limit",
        "Jobs that are counted together start at most this often; the others wait and use no "
        "attempts. If this limit exists already, it is changed. Among limits that count the same "
        "jobs together, a firm's own applies instead of the one for every firm, and one for a "
        "key instead of the one for each key. Limits that count jobs in another way apply as "
        "well. Needs the role admin; everywhere is only for platform staff.",
        body=RateLimitBody,
        answers={HTTPStatus.OK: OpenApiResponse(RateLimitSerializer, "The rate limit.")},
        example=example(
            "Ten a minute", job_type="webhook_send", amount=10, per_seconds=60, burst=3
        ),
    )
    def set(self, request: Request) -> Response:
        body = self.get_body(RateLimitBody)
        firm = self.pop_firm_or_every(body, Role.ADMIN)
        job_type = body.pop("job_type", None)
        limit = limits.set_rate_limit(job_type, firm=firm, by=self.actor, **body)
        return Response(self.represent(limit))


class Breakers(QueueView):
    """The circuit breakers of the caller's firms."""

    resource, tag = "breakers", "circuit breakers"
    model, serializer = CircuitBreaker, BreakerSerializer

    list = list_operation(
        "List circuit breakers",
        "The latest first. A type whose recent attempts all succeeded has none.",
        serializer=BreakerSerializer,
        rows="breakers",
    )
    close = row_operation(
        breakers.close_breaker,
        "Close a circuit breaker",
        "The jobs that the breaker holds back may start. If they fail again, the breaker opens "
        "again. Needs the role operator. 409 if the breaker is closed.",
        body=ObligatoryReason,
        answer=OpenApiResponse(BreakerSerializer, "The closed breaker."),
        example=example("Close", reason="The provider answers again"),
    )

    @operation(
        "Open a circuit breaker",
        "Jobs of the type, firm and limit key wait and use no attempts. After the cooldown one "
        "of them runs as a probe; if it completes, the others follow. To stop them until further "
        "notice, pause them. Needs the role operator. 409 if the breaker is not closed.",
        body=BreakerBody,
        answers={HTTPStatus.OK: OpenApiResponse(BreakerSerializer, "The breaker.")},
        example=example("Open", job_type="sync", reason="The provider announced an outage"),
    )
    def open(self, request: Request) -> Response:
        body = self.get_body(BreakerBody)
        firm = self.firm_named(body.pop("firm", None), Role.OPERATOR)
        return Response(self.represent(breakers.open_breaker(firm=firm, by=self.actor, **body)))


class Locks(QueueView):
    """The held locks of the caller's firms."""

    resource = tag = "locks"
    serializer = LockSerializer

    list = list_operation(
        "List held locks",
        "The latest taken first, both jobs' and users' locks. A user's lock whose time is up is "
        "not listed. Filters are combined.",
        serializer=LockSerializer,
        rows="locks",
        query=LockQuery,
    )
    release = row_operation(
        locks.force_release,
        "Release a lock by force",
        "For a lock that its holder will not release. The lock of a job in flight cannot be "
        "released: cancel the job instead. Needs the role admin.",
        role=Role.ADMIN,
        body=ObligatoryReason,
        answer=OpenApiResponse(LockSerializer, "The lock as it was before."),
        example=example("Release", reason="The script that took it crashed"),
    )

    def get_rows(self, **filters: Any) -> QuerySet[ConcurrencyLock]:
        """Return the held locks in scope that meet the filters."""
        return filter_locks(held_locks(), **filters)
