"""`pauses/`: what holds work back, starting to and ceasing to."""

from __future__ import annotations

from http import HTTPStatus
from uuid import UUID

from drf_spectacular.utils import OpenApiResponse
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.api.schema import operation, page_of
from jobs.api import examples
from jobs.api.requests import OptionalReason, PauseBody, PauseQuery
from jobs.api.views import QueueView
from jobs.models import Pause
from jobs.operations import limits
from jobs.queries.lists import list_pauses
from jobs.queries.serializers.limits import PauseSerializer
from tenants.models import Role

_TAG = "pauses"


class PauseList(QueueView):
    """The pauses of the caller's firms."""

    query_class = PauseQuery

    @operation(
        "pauses_list",
        tag=_TAG,
        summary="List pauses",
        description="The latest first. Those that hold everywhere are listed for platform staff; "
        "to others `why_waiting` tells of them, job by job.",
        answers={HTTPStatus.OK: OpenApiResponse(page_of(PauseSerializer), "A page of pauses.")},
        query=PauseQuery,
    )
    def get(self, request: Request) -> Response:
        """Return a page of pauses."""
        page = list_pauses(limit=self.query["limit"], cursor=self.query.get("cursor"))
        return Response(
            {"results": PauseSerializer(page.rows, many=True).data, "next": page.next_cursor}
        )

    @operation(
        "pauses_create",
        tag=_TAG,
        summary="Pause work",
        description="Nothing of the firm that matches category and type starts while the pause "
        "stands; what runs goes on. Needs the role operator. To pause everywhere is for platform "
        "staff. 409 where the same is paused already.",
        body=PauseBody,
        answers={HTTPStatus.OK: OpenApiResponse(PauseSerializer, "The pause.")},
        examples=[examples.PAUSE],
    )
    def post(self, request: Request) -> Response:
        """Pause work."""
        body = self.get_body(PauseBody)
        firm = self.firm_or_every(
            body.pop("firm", None), Role.OPERATOR, everywhere=body.pop("everywhere")
        )
        pause = limits.pause(firm=firm, by=self.actor, **body)
        return Response(PauseSerializer(pause).data)


class PauseResume(QueueView):
    """Ending a pause."""

    @operation(
        "pauses_resume",
        tag=_TAG,
        summary="Resume work",
        description="The pause is over, and what it held back runs in its turn. Needs the role "
        "operator; where it holds everywhere it is for platform staff.",
        body=OptionalReason,
        answers={HTTPStatus.OK: OpenApiResponse(PauseSerializer, "The pause as it was.")},
        examples=[examples.RESUME],
    )
    def post(self, request: Request, pk: UUID) -> Response:
        """End the pause."""
        pause = self.get_row(Pause.objects.select_related("firm"), pk, Role.OPERATOR)
        if pause.everywhere:
            self.check_platform_staff()
        limits.resume(pause, reason=self.get_body(OptionalReason)["reason"], by=self.actor)
        return Response(PauseSerializer(pause).data)
