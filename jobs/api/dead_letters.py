"""`dlq/`: dead letters, and their operations."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiExample, OpenApiResponse
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.api.schema import operation
from jobs.api.requests import DeadLetterQuery, EscalateBody, ObligatoryReason, ReprocessBody
from jobs.api.views import ListView, QueueView, example, list_operation, refusal
from jobs.models import DeadLetterQueue
from jobs.operations import dead_letters as operations
from jobs.queries.filters import filter_dead_letters
from jobs.queries.lists import dead_letters
from jobs.queries.serializers.jobs import DeadLetterSerializer
from tenants.models import Membership, Role

_TAG = "dead letters"
_DEAD_LETTER = OpenApiResponse(DeadLetterSerializer, "The dead letter as it is now.")
_EXAMPLE = OpenApiExample(
    "Escalated",
    response_only=True,
    status_codes=["200"],
    value={
        "id": "0190b5a5-02f1-7a44-8c61-2f9d7b3e4a10",
        "job_id": "0190b5a4-7c1e-7d3a-9f42-5b8e6c0a1d27",
        "firm": "harbour-toys",
        "category": "export",
        "job_type": "firm_export",
        "reason": "exhausted",
        "error_class": "ConnectionError",
        "error": "the archive did not answer",
        "fingerprint": "5f1d7a84db00d2fc",
        "moved_at": "2026-03-02T09:14:07.031Z",
        "resolution": "escalated",
        "resolution_note": "Third time this week",
        "reviewed_by": "ada@harbour-toys.example",
        "reviewed_at": "2026-03-02T10:02:55.480Z",
        "assigned_to": "grace@harbour-toys.example",
    },
)


class DeadLetterView(QueueView):
    """One dead letter."""

    def get_dead_letter(self, pk: UUID, needed: Role = Role.VIEWER) -> DeadLetterQueue:
        """Return the dead letter; see `get_row`."""
        return self.get_row(dead_letters(), pk, needed)

    def show(self, pk: UUID) -> dict[str, Any]:
        """Return the dead letter's JSON."""
        return DeadLetterSerializer(self.get_dead_letter(pk)).data


@list_operation(
    "dlq_list",
    tag=_TAG,
    summary="List dead letters",
    description="Newest first. Filters are combined: a dead letter has to meet all of them.",
    rows="dead letters",
)
class DeadLetterList(ListView):
    """The dead letters of the caller's firms."""

    query_class = DeadLetterQuery
    serializer = DeadLetterSerializer

    def get_rows(self, **filters: Any) -> QuerySet[DeadLetterQueue]:
        """Return the dead letters."""
        return filter_dead_letters(dead_letters(), **filters)


class DeadLetter(DeadLetterView):
    """A dead letter."""

    @operation(
        "dlq_show",
        tag=_TAG,
        summary="Show a dead letter",
        description="Why its job stopped, and what was decided.",
        answers={HTTPStatus.OK: OpenApiResponse(DeadLetterSerializer, "The dead letter.")},
        examples=[_EXAMPLE],
    )
    def get(self, request: Request, pk: UUID) -> Response:
        """Return the dead letter."""
        return Response(self.show(pk))


class DeadLetterReprocess(DeadLetterView):
    """Reprocessing a dead letter."""

    @operation(
        "dlq_reprocess",
        tag=_TAG,
        summary="Reprocess a dead letter",
        description="Its job runs again, with an edited payload when one is given. Needs the role "
        "operator.",
        body=ReprocessBody,
        answers={HTTPStatus.OK: _DEAD_LETTER},
        examples=[
            example(
                "With an edited payload",
                payload={
                    "tenant_id": 7,
                    "version": "1.0",
                    "correlation_id": "import-2026-03-02",
                    "archive": "2026-02",
                },
                priority=1,
                note="The archive was renamed",
            )
        ],
    )
    def post(self, request: Request, pk: UUID) -> Response:
        """Reprocess the dead letter."""
        row = self.get_dead_letter(pk, Role.OPERATOR)
        operations.reprocess(row, by=self.actor, **self.get_body(ReprocessBody))
        return Response(self.show(pk))


class DeadLetterDiscard(DeadLetterView):
    """Discarding a dead letter."""

    @operation(
        "dlq_discard",
        tag=_TAG,
        summary="Discard a dead letter",
        description="Its job is given up for good and becomes failed. Needs the role operator.",
        body=ObligatoryReason,
        answers={HTTPStatus.OK: _DEAD_LETTER},
        examples=[example("Discard", reason="The customer withdrew the order")],
    )
    def post(self, request: Request, pk: UUID) -> Response:
        """Discard the dead letter."""
        row = self.get_dead_letter(pk, Role.OPERATOR)
        operations.discard(row, by=self.actor, **self.get_body(ObligatoryReason))
        return Response(self.show(pk))


class DeadLetterEscalate(DeadLetterView):
    """Escalating a dead letter."""

    @operation(
        "dlq_escalate",
        tag=_TAG,
        summary="Escalate a dead letter",
        description="A colleague, or the firm's admins, are asked by e-mail to decide; it stays "
        "open for reprocess and discard. Where none of them has an address, platform staff is "
        "asked. Needs the role operator.",
        body=EscalateBody,
        answers={HTTPStatus.OK: _DEAD_LETTER},
        examples=[
            example(
                "To a colleague",
                reason="Third time this week",
                assigned_to="grace@harbour-toys.example",
            )
        ],
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
        Refusal: there is none. It does not reveal whether another firm has such a member.
    """
    members = Membership.objects.select_related("user").filter(
        firm_id=firm_id,
        user__is_active=True,
        **{f"user__{get_user_model().USERNAME_FIELD}": address.lower()},
    )
    member = members.first()
    if member is None:
        message = "No active member of the firm has this address."
        raise refusal("assigned_to", "not_a_member", message)
    return member.user
