"""`pauses/`, `rate-limits/` and `breakers/`: limits on what starts, and their operations."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiResponse
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.api.schema import operation
from jobs.api.requests import (
    BreakerBody,
    FirmPageQuery,
    ObligatoryReason,
    OptionalReason,
    PauseBody,
    RateLimitBody,
)
from jobs.api.views import ListView, QueueView, example, list_operation
from jobs.models import CircuitBreaker, Pause, RateLimit
from jobs.operations import breakers, limits
from jobs.queries.serializers.limits import BreakerSerializer, PauseSerializer, RateLimitSerializer
from tenants.models import Role

_PAUSES, _RATE_LIMITS, _BREAKERS = "pauses", "rate limits", "circuit breakers"


@list_operation(
    "pauses_list",
    tag=_PAUSES,
    summary="List pauses",
    description="The latest first. Those that hold everywhere are listed for platform staff; "
    "for others `why_waiting` names them, job by job.",
    rows="pauses",
)
class PauseList(ListView):
    """The pauses of the caller's firms. One of every firm is the system firm's row."""

    query_class = FirmPageQuery
    serializer = PauseSerializer

    def get_rows(self, **_: Any) -> QuerySet[Pause]:
        """Return the pauses."""
        return Pause.objects.select_related("firm")

    @operation(
        "pauses_create",
        tag=_PAUSES,
        summary="Pause work",
        description="No job of the firm that matches category and type starts during the pause; "
        "running jobs go on. Needs the role operator. To pause everywhere is for platform "
        "staff. 409 where the same is paused already.",
        body=PauseBody,
        answers={HTTPStatus.OK: OpenApiResponse(PauseSerializer, "The pause.")},
        examples=[
            example(
                "Until the provider is back",
                category="ingestion",
                reason="The mail provider refuses every request",
                until="2099-03-02T12:00:00Z",
            )
        ],
    )
    def post(self, request: Request) -> Response:
        """Pause work."""
        body = self.get_body(PauseBody)
        firm = self.firm_or_every(
            body.pop("firm", None), Role.OPERATOR, everywhere=body.pop("everywhere")
        )
        return Response(PauseSerializer(limits.pause(firm=firm, by=self.actor, **body)).data)


class PauseResume(QueueView):
    """Ending a pause."""

    @operation(
        "pauses_resume",
        tag=_PAUSES,
        summary="Resume work",
        description="Ends the pause; the jobs it held back may start. Needs the role operator; "
        "where it holds everywhere it is for platform staff.",
        body=OptionalReason,
        answers={HTTPStatus.OK: OpenApiResponse(PauseSerializer, "The pause as it was.")},
        examples=[example("Resume", reason="The mail provider answers again")],
    )
    def post(self, request: Request, pk: UUID) -> Response:
        """End the pause."""
        pause = self.get_row(Pause.objects.select_related("firm"), pk, Role.OPERATOR)
        if pause.everywhere:
            self.check_platform_staff()
        limits.resume(pause, by=self.actor, **self.get_body(OptionalReason))
        return Response(PauseSerializer(pause).data)


@list_operation(
    "rate_limits_list",
    tag=_RATE_LIMITS,
    summary="List rate limits",
    description="The latest first. Those that hold everywhere are listed for platform staff.",
    rows="rate limits",
)
class RateLimitList(ListView):
    """The rate limits of the caller's firms."""

    query_class = FirmPageQuery
    serializer = RateLimitSerializer

    def get_rows(self, **_: Any) -> QuerySet[RateLimit]:
        """Return the rate limits."""
        return RateLimit.objects.select_related("firm")

    @operation(
        "rate_limits_set",
        tag=_RATE_LIMITS,
        summary="Set a rate limit",
        description="Jobs of the type start no more often than this; the others wait and use no "
        "attempts. Replaces the limit of the same type and firm; a firm's own limit goes before "
        "the one for everywhere. Needs the role admin; everywhere is for platform staff.",
        body=RateLimitBody,
        answers={HTTPStatus.OK: OpenApiResponse(RateLimitSerializer, "The rate limit.")},
        examples=[
            example("Ten a minute", job_type="webhook_send", amount=10, per_seconds=60, burst=3)
        ],
    )
    def post(self, request: Request) -> Response:
        """Set a rate limit."""
        body = self.get_body(RateLimitBody)
        firm = self.firm_or_every(
            body.pop("firm", None), Role.ADMIN, everywhere=body.pop("everywhere")
        )
        limit = limits.set_rate_limit(**body, firm=firm, by=self.actor)
        return Response(RateLimitSerializer(limit).data)


class RateLimitClear(QueueView):
    """Clearing a rate limit."""

    @operation(
        "rate_limits_clear",
        tag=_RATE_LIMITS,
        summary="Clear a rate limit",
        description="Jobs that wait for the limit start as fast as workers claim them. Needs the "
        "role admin; where it holds everywhere it is for platform staff.",
        body=OptionalReason,
        answers={HTTPStatus.OK: OpenApiResponse(RateLimitSerializer, "The limit as it was.")},
        examples=[example("Clear", reason="The provider has raised its quota")],
    )
    def post(self, request: Request, pk: UUID) -> Response:
        """Clear the rate limit."""
        limit = self.get_row(RateLimit.objects.select_related("firm"), pk, Role.ADMIN)
        if limit.everywhere:
            self.check_platform_staff()
        firm = None if limit.everywhere else limit.firm
        reason = self.get_body(OptionalReason)
        limits.clear_rate_limit(limit.job_type, firm=firm, by=self.actor, **reason)
        return Response(RateLimitSerializer(limit).data)


@list_operation(
    "breakers_list",
    tag=_BREAKERS,
    summary="List circuit breakers",
    description="The latest first. A type whose recent attempts all succeeded has none.",
    rows="breakers",
)
class BreakerList(ListView):
    """The circuit breakers of the caller's firms."""

    query_class = FirmPageQuery
    serializer = BreakerSerializer

    def get_rows(self, **_: Any) -> QuerySet[CircuitBreaker]:
        """Return the circuit breakers."""
        return CircuitBreaker.objects.select_related("firm")

    @operation(
        "breakers_open",
        tag=_BREAKERS,
        summary="Open a circuit breaker",
        description="The type's jobs of the firm wait and use no attempts. After the cooldown one "
        "is tried: when it completes, the others follow. To stop them until further notice, pause "
        "them. Needs the role operator. 409 where it is not closed.",
        body=BreakerBody,
        answers={HTTPStatus.OK: OpenApiResponse(BreakerSerializer, "The breaker.")},
        examples=[example("Open", job_type="sync", reason="The provider announced an outage")],
    )
    def post(self, request: Request) -> Response:
        """Open the breaker of a type for a firm."""
        body = self.get_body(BreakerBody)
        firm = self.firm_named(body.get("firm"), Role.OPERATOR)
        breakers.open_breaker(body["job_type"], firm, body["reason"], by=self.actor)
        breaker = self.get_rows().get(firm=firm, job_type=body["job_type"])
        return Response(BreakerSerializer(breaker).data)


class BreakerClose(QueueView):
    """Closing a circuit breaker."""

    @operation(
        "breakers_close",
        tag=_BREAKERS,
        summary="Close a circuit breaker",
        description="The jobs it held back may start; should they fail again, it opens again. "
        "Needs the role operator. 409 where it is closed.",
        body=ObligatoryReason,
        answers={HTTPStatus.OK: OpenApiResponse(BreakerSerializer, "The breaker, closed.")},
        examples=[example("Close", reason="The provider answers again")],
    )
    def post(self, request: Request, pk: UUID) -> Response:
        """Close the breaker."""
        rows = CircuitBreaker.objects.select_related("firm")
        breaker = self.get_row(rows, pk, Role.OPERATOR)
        breakers.close_breaker(breaker, by=self.actor, **self.get_body(ObligatoryReason))
        return Response(BreakerSerializer(rows.get(pk=pk)).data)
