"""`dlq/`: dead letters, and their operations."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiExample, OpenApiResponse
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.api.schema import operation
from jobs.api.query import DeadLetterQuery
from jobs.api.requests import EscalateBody, ObligatoryReason, RehearseBody, ReprocessBody
from jobs.api.views import (
    QueueView,
    example,
    list_operation,
    refusal,
    row_operation,
    show_operation,
)
from jobs.models import DeadLetterQueue
from jobs.operations import dead_letters as operations
from jobs.operations.rehearsal import MOST_SECONDS, rehearse
from jobs.queries.filters import filter_dead_letters
from jobs.queries.lists import dead_letters
from jobs.queries.serializers.jobs import DeadLetterSerializer
from jobs.queries.serializers.rehearsal import RehearsalSerializer
from tenants.models import Membership, Role
from tenants.users import sign_in_field

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
_EDIT = example(
    "With an edited payload",
    payload={
        "tenant_id": 7,
        "version": "1.0",
        "correlation_id": "import-2026-03-02",
        "archive": "2026-02",
    },
    priority=1,
    reason="The archive was renamed",
)


def _escalate(
    row: DeadLetterQueue, *, reason: str, assigned_to: str | None = None, by: Any
) -> None:
    to = None if assigned_to is None else _member(row.firm_id, assigned_to)
    operations.escalate(row, reason, to=to, by=by)


def _member(firm_id: int, address: str) -> Any:
    """Return the active member of the firm who signs in with this address.

    Raises:
        Refusal: there is none. It does not reveal whether another firm has such a member.
    """
    members = Membership.objects.select_related("user").filter(
        firm_id=firm_id,
        user__is_active=True,
        **{f"user__{sign_in_field()}__iexact": address},
    )
    member = members.first()
    if member is None:
        message = "No active member of the firm has this address."
        raise refusal("assigned_to", "not_a_member", message)
    return member.user


class DeadLetters(QueueView):
    """The dead letters of the caller's firms."""

    resource, tag = "dlq", "dead letters"
    serializer = DeadLetterSerializer

    list = list_operation(
        "List dead letters",
        "Newest first. Filters are combined: a dead letter has to meet all of them.",
        serializer=DeadLetterSerializer,
        rows="dead letters",
        query=DeadLetterQuery,
    )
    show = show_operation(
        "Show a dead letter",
        "Why its job was dead-lettered, and what was decided.",
        answer=OpenApiResponse(DeadLetterSerializer, "The dead letter."),
        example=_EXAMPLE,
    )
    reprocess = row_operation(
        operations.reprocess,
        "Reprocess a dead letter",
        (
            "The job returns to the queue, with an edited payload if one is given, and its "
            "attempts start from zero. Needs the role operator."
        ),
        body=ReprocessBody,
        answer=_DEAD_LETTER,
        example=_EDIT,
    )
    discard = row_operation(
        operations.discard,
        "Discard a dead letter",
        (
            "The job becomes failed and runs again only if somebody retries it. Needs the role "
            "operator."
        ),
        body=ObligatoryReason,
        answer=_DEAD_LETTER,
        example=example("Discard", reason="The customer withdrew the order"),
    )
    escalate = row_operation(
        _escalate,
        "Escalate a dead letter",
        "A colleague, or else the firm's admins, are asked by e-mail to decide; the dead letter "
        "stays open until then. If none of them has an address, platform staff is asked. Needs "
        "the role operator.",
        body=EscalateBody,
        answer=_DEAD_LETTER,
        example=example(
            "To a colleague",
            reason="Third time this week",
            assigned_to="grace@harbour-toys.example",
        ),
    )

    @operation(
        "Rehearse a dead letter",
        "The job runs as after a reprocess, with an edited payload if one is given, but in a "
        "process of its own and in a transaction that is rolled back. Calls to the outside are "
        f"blocked and listed. The answer takes at most {MOST_SECONDS:g} seconds. Needs the role "
        "developer.",
        answers={HTTPStatus.OK: OpenApiResponse(RehearsalSerializer, "What the job would do.")},
        body=RehearseBody,
        example=example("Unchanged"),
    )
    def rehearse(self, _: Request, **__: UUID) -> Response:
        letter = self.get_object(Role.DEVELOPER)
        report = rehearse(letter, by=self.actor, **self.get_body(RehearseBody))
        return Response(RehearsalSerializer(report).data)

    def get_rows(self, **filters: Any) -> QuerySet[DeadLetterQueue]:
        """Return the dead letters in scope that meet the filters."""
        return filter_dead_letters(dead_letters(), **filters)
