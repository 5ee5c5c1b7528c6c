"""`pauses/`: what holds work back, starting to and ceasing to."""

from __future__ import annotations

from http import HTTPStatus
from uuid import UUID

from drf_spectacular.utils import OpenApiResponse
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response

from jobs import limits
from jobs.api import examples
from jobs.api.answers import PauseSerializer
from jobs.api.requests import OptionalReason, PauseBody, PauseQuery
from jobs.api.views import QueueView
from jobs.limit_shapes import pause_row
from jobs.lists import list_pauses
from jobs.models import Pause
from tenants.api.problems import Fault, Refusal
from tenants.api.schema import operation, page_of
from tenants.models import Firm, Role

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
            {"results": [pause_row(pause) for pause in page.rows], "next": page.next_cursor}
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
        firm = self._firm_to_pause(body.pop("firm", None), everywhere=body.pop("everywhere"))
        pause = limits.pause(firm=firm, by=self.actor, **body)
        return Response(pause_row(pause))

    def _firm_to_pause(self, slug: str | None, *, everywhere: bool) -> Firm | None:
        """Return the firm that is meant, None for every firm.

        Raises:
            Refusal: none is named and there are several, or one is named beside every firm.
            NotFound: the one named is not in sight.
            PermissionDenied: it is, and the caller's role is too low.
        """
        if everywhere:
            self._check_everywhere(slug)
            return None
        if slug is not None:
            firm = self.get_firm(slug)
        elif (only := self.access.only_firm_id) is not None:
            firm = Firm.objects.get(pk=only)
        else:
            raise _refusal("firm", "required", "Name the firm, or say everywhere.")
        self.check_role(Role.OPERATOR, firm.pk)
        return firm

    def _check_everywhere(self, slug: str | None) -> None:
        if not self.access.is_platform_staff:
            raise PermissionDenied("Only platform staff may pause everywhere.")
        if slug is not None:
            raise _refusal("everywhere", "invalid", "Name a firm or say everywhere, not both.")


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
        if pause.everywhere and not self.access.is_platform_staff:
            raise PermissionDenied("Only platform staff may end a pause that holds everywhere.")
        limits.resume(pause, reason=self.get_body(OptionalReason)["reason"], by=self.actor)
        return Response(pause_row(pause))


def _refusal(field: str, code: str, message: str) -> Refusal:
    return Refusal(HTTPStatus.BAD_REQUEST, "invalid", message, [Fault(field, code, message)])
