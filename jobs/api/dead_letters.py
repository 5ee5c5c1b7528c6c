"""`dlq/`: dead letters, and what an operator decides about one."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from drf_spectacular.utils import OpenApiResponse
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.api.problems import Fault, Refusal
from interfaces.api.schema import operation, page_of
from jobs.api import examples
from jobs.api.requests import DeadLetterQuery, EscalateBody, ObligatoryReason, ReprocessBody
from jobs.api.views import QueueView
from jobs.models import DeadLetterQueue
from jobs.operations import dead_letters as operations
from jobs.queries.filters import DeadLetterFilter
from jobs.queries.lists import dead_letters, list_dead_letters
from jobs.queries.serializers.jobs import DeadLetterSerializer
from jobs.states import Category, DeadReason
from tenants.models import Membership, Role

_TAG = "dead letters"
_DEAD_LETTER = OpenApiResponse(DeadLetterSerializer, "The dead letter as it is now.")


class DeadLetterView(QueueView):
    """One dead letter."""

    def get_dead_letter(self, pk: UUID, needed: Role = Role.VIEWER) -> DeadLetterQueue:
        """Return the dead letter; see `get_row`."""
        return self.get_row(dead_letters(), pk, needed)

    def show(self, pk: UUID) -> dict[str, Any]:
        """Return the dead letter's shape."""
        return DeadLetterSerializer(self.get_dead_letter(pk)).data


class DeadLetterList(QueueView):
    """The dead letters of the caller's firms."""

    query_class = DeadLetterQuery

    @operation(
        "dlq_list",
        tag=_TAG,
        summary="List dead letters",
        description="Newest first. Filters are combined: a dead letter has to meet all of them.",
        answers={
            HTTPStatus.OK: OpenApiResponse(page_of(DeadLetterSerializer), "A page of dead letters.")
        },
        query=DeadLetterQuery,
    )
    def get(self, request: Request) -> Response:
        """Return a page of dead letters."""
        asked = self.query
        wanted = DeadLetterFilter(
            resolution=asked.get("resolution"),
            reason=DeadReason(asked["reason"]) if "reason" in asked else None,
            category=Category(asked["category"]) if "category" in asked else None,
            job_type=asked.get("job_type"),
            fingerprint=asked.get("fingerprint"),
            since=asked.get("created_after"),
            before=asked.get("created_before"),
            search=asked.get("search"),
        )
        page = list_dead_letters(wanted, limit=asked["limit"], cursor=asked.get("cursor"))
        return Response(
            {"results": DeadLetterSerializer(page.rows, many=True).data, "next": page.next_cursor}
        )


class DeadLetter(DeadLetterView):
    """A dead letter."""

    @operation(
        "dlq_show",
        tag=_TAG,
        summary="Show a dead letter",
        description="Why its job stopped, and what was decided.",
        answers={HTTPStatus.OK: OpenApiResponse(DeadLetterSerializer, "The dead letter.")},
        examples=[examples.DEAD_LETTER],
    )
    def get(self, request: Request, pk: UUID) -> Response:
        """Return the dead letter."""
        return Response(self.show(pk))


class DeadLetterReprocess(DeadLetterView):
    """Sending a dead letter's job round again."""

    @operation(
        "dlq_reprocess",
        tag=_TAG,
        summary="Reprocess a dead letter",
        description="Its job goes round again, with an edited payload when one is given. Needs "
        "the role operator.",
        body=ReprocessBody,
        answers={HTTPStatus.OK: _DEAD_LETTER},
        examples=[examples.REPROCESS],
    )
    def post(self, request: Request, pk: UUID) -> Response:
        """Reprocess the dead letter."""
        row = self.get_dead_letter(pk, Role.OPERATOR)
        operations.reprocess(row, by=self.actor, **self.get_body(ReprocessBody))
        return Response(self.show(pk))


class DeadLetterDiscard(DeadLetterView):
    """Giving a dead letter's job up."""

    @operation(
        "dlq_discard",
        tag=_TAG,
        summary="Discard a dead letter",
        description="Its job is given up for good and becomes failed. Needs the role operator.",
        body=ObligatoryReason,
        answers={HTTPStatus.OK: _DEAD_LETTER},
        examples=[examples.DISCARD],
    )
    def post(self, request: Request, pk: UUID) -> Response:
        """Discard the dead letter."""
        row = self.get_dead_letter(pk, Role.OPERATOR)
        operations.discard(row, self.get_body(ObligatoryReason)["reason"], by=self.actor)
        return Response(self.show(pk))


class DeadLetterEscalate(DeadLetterView):
    """Asking somebody to look at a dead letter."""

    @operation(
        "dlq_escalate",
        tag=_TAG,
        summary="Escalate a dead letter",
        description="A colleague, or the firm's admins, are asked by e-mail to look; it stays "
        "open for reprocess and discard. Where none of them has an address, platform staff is "
        "asked. Needs the role operator.",
        body=EscalateBody,
        answers={HTTPStatus.OK: _DEAD_LETTER},
        examples=[examples.ESCALATE],
    )
    def post(self, request: Request, pk: UUID) -> Response:
        """Escalate the dead letter."""
        row = self.get_dead_letter(pk, Role.OPERATOR)
        body = self.get_body(EscalateBody)
        address = body.get("assigned_to")
        to = None if address is None else _member(row.firm_id, address)
        operations.escalate(row, body["reason"], to=to, by=self.actor)
        return Response(self.show(pk))


def _member(firm_id: int, address: str) -> Any:
    """Return the active member of the firm who signs in with this address.

    Raises:
        Refusal: there is none; whether another firm knows the address stays untold.
    """
    members = Membership.objects.select_related("user").filter(
        firm_id=firm_id,
        user__is_active=True,
        **{f"user__{get_user_model().USERNAME_FIELD}": address.lower()},
    )
    member = members.first()
    if member is None:
        message = "No active member of the firm has this address."
        raise Refusal(
            HTTPStatus.BAD_REQUEST,
            "invalid",
            message,
            [Fault("assigned_to", "not_a_member", message)],
        )
    return member.user
