"""`breakers/`: which types are not tried for which firm, opening and closing by hand."""

from __future__ import annotations

from http import HTTPStatus
from uuid import UUID

from drf_spectacular.utils import OpenApiResponse
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.api.schema import operation, page_of
from jobs.api import examples
from jobs.api.requests import BreakerBody, BreakerQuery, ObligatoryReason
from jobs.api.views import QueueView
from jobs.models import CircuitBreaker
from jobs.operations import breakers
from jobs.queries.lists import list_breakers
from jobs.queries.serializers.limits import BreakerSerializer
from tenants.models import Role

_TAG = "circuit breakers"


class BreakerList(QueueView):
    """The circuit breakers of the caller's firms."""

    query_class = BreakerQuery

    @operation(
        "breakers_list",
        tag=_TAG,
        summary="List circuit breakers",
        description="The latest first. A type whose attempts all went well of late has none.",
        answers={HTTPStatus.OK: OpenApiResponse(page_of(BreakerSerializer), "A page of breakers.")},
        query=BreakerQuery,
    )
    def get(self, request: Request) -> Response:
        """Return a page of breakers."""
        page = list_breakers(limit=self.query["limit"], cursor=self.query.get("cursor"))
        return Response(
            {"results": BreakerSerializer(page.rows, many=True).data, "next": page.next_cursor}
        )

    @operation(
        "breakers_open",
        tag=_TAG,
        summary="Open a circuit breaker",
        description="The type's jobs of the firm wait and use no attempts. After the cooldown one "
        "is tried: when it completes, the others follow. To stop them until further notice, pause "
        "them. Needs the role operator. 409 where it is not closed.",
        body=BreakerBody,
        answers={HTTPStatus.OK: OpenApiResponse(BreakerSerializer, "The breaker.")},
        examples=[examples.OPEN_BREAKER],
    )
    def post(self, request: Request) -> Response:
        """Open the breaker of a type for a firm."""
        body = self.get_body(BreakerBody)
        firm = self.firm_named(body.get("firm"), Role.OPERATOR)
        breakers.open_breaker(body["job_type"], firm, body["reason"], by=self.actor)
        rows = CircuitBreaker.objects.select_related("firm")
        return Response(BreakerSerializer(rows.get(firm=firm, job_type=body["job_type"])).data)


class BreakerClose(QueueView):
    """Closing a circuit breaker by hand."""

    @operation(
        "breakers_close",
        tag=_TAG,
        summary="Close a circuit breaker",
        description="The jobs it held back run in their turn; should they fail again, it opens "
        "again. Needs the role operator. 409 where it is closed.",
        body=ObligatoryReason,
        answers={HTTPStatus.OK: OpenApiResponse(BreakerSerializer, "The breaker, closed.")},
        examples=[examples.CLOSE_BREAKER],
    )
    def post(self, request: Request, pk: UUID) -> Response:
        """Close the breaker."""
        rows = CircuitBreaker.objects.select_related("firm")
        breaker = self.get_row(rows, pk, Role.OPERATOR)
        breakers.close_breaker(breaker, self.get_body(ObligatoryReason)["reason"], by=self.actor)
        return Response(BreakerSerializer(rows.get(pk=pk)).data)
