"""`rate-limits/`: how often types start, setting and clearing it."""

from __future__ import annotations

from http import HTTPStatus
from uuid import UUID

from drf_spectacular.utils import OpenApiResponse
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.api.schema import operation, page_of
from jobs.api import examples
from jobs.api.requests import OptionalReason, RateLimitBody, RateLimitQuery
from jobs.api.views import QueueView
from jobs.models import RateLimit
from jobs.operations import limits
from jobs.queries.lists import list_rate_limits
from jobs.queries.serializers.limits import RateLimitSerializer
from tenants.models import Role

_TAG = "rate limits"


class RateLimitList(QueueView):
    """The rate limits of the caller's firms."""

    query_class = RateLimitQuery

    @operation(
        "rate_limits_list",
        tag=_TAG,
        summary="List rate limits",
        description="The latest first. Those that hold everywhere are listed for platform staff.",
        answers={
            HTTPStatus.OK: OpenApiResponse(page_of(RateLimitSerializer), "A page of rate limits.")
        },
        query=RateLimitQuery,
    )
    def get(self, request: Request) -> Response:
        """Return a page of rate limits."""
        page = list_rate_limits(limit=self.query["limit"], cursor=self.query.get("cursor"))
        return Response(
            {"results": RateLimitSerializer(page.rows, many=True).data, "next": page.next_cursor}
        )

    @operation(
        "rate_limits_set",
        tag=_TAG,
        summary="Set a rate limit",
        description="Jobs of the type start no more often than this; the others wait and use no "
        "attempts. A limit that is there for the same type and firm is replaced; a firm's own "
        "stands before the one for everywhere. Needs the role admin; everywhere is for platform "
        "staff.",
        body=RateLimitBody,
        answers={HTTPStatus.OK: OpenApiResponse(RateLimitSerializer, "The rate limit.")},
        examples=[examples.RATE_LIMIT],
    )
    def post(self, request: Request) -> Response:
        """Set a rate limit."""
        body = self.get_body(RateLimitBody)
        firm = self.firm_or_every(
            body.pop("firm", None), Role.ADMIN, everywhere=body.pop("everywhere")
        )
        return Response(
            RateLimitSerializer(limits.set_rate_limit(**body, firm=firm, by=self.actor)).data
        )


class RateLimitClear(QueueView):
    """Taking a rate limit away."""

    @operation(
        "rate_limits_clear",
        tag=_TAG,
        summary="Clear a rate limit",
        description="What waits for the limit starts as fast as workers take it. Needs the role "
        "admin; where it holds everywhere it is for platform staff.",
        body=OptionalReason,
        answers={HTTPStatus.OK: OpenApiResponse(RateLimitSerializer, "The limit as it was.")},
        examples=[examples.CLEAR_RATE_LIMIT],
    )
    def post(self, request: Request, pk: UUID) -> Response:
        """Clear the rate limit."""
        limit = self.get_row(RateLimit.objects.select_related("firm"), pk, Role.ADMIN)
        if limit.everywhere:
            self.check_platform_staff()
        limits.clear_rate_limit(
            limit.job_type,
            firm=None if limit.everywhere else limit.firm,
            reason=self.get_body(OptionalReason)["reason"],
            by=self.actor,
        )
        return Response(RateLimitSerializer(limit).data)
