"""`approvals/`: approvals, and the decision on one."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.api.problems import PROBLEM_TYPE, problem
from interfaces.api.schema import operation
from jobs.api.query import FirmPageQuery, choice
from jobs.api.views import example, list_operation, show_operation
from jobs.queries.serializers.fields import NullableTextField, TimestampField
from mail.api.base import FOR_READERS, ContentView, FirmRowSerializer
from mail.api.serializers import SwitchBody
from mail.models import Approval, ApprovalStatus
from mail.services.approvals.approvals import (
    APPROVE_ROLE,
    Decided,
    approve,
    may_decide,
    refuse,
    reject,
)
from mail.services.approvals.notice import all_facts_of


class ApprovedContentSerializer(serializers.Serializer[Any]):
    """The whole content of a message that waits for approval."""

    text = serializers.CharField()
    html = serializers.CharField(help_text="The same text in HTML; empty if the message has none.")
    files = serializers.ListField(
        child=serializers.CharField(),
        source="filenames",
        help_text="The names of the message's attachments.",
    )


class ApprovalSerializer(FirmRowSerializer):
    """A question to a person, and the decision. Only readers of the mailbox see its quotes."""

    account_id = serializers.UUIDField()
    message_id = serializers.UUIDField(allow_null=True)
    action_id = serializers.UUIDField(allow_null=True)
    outbound_id = serializers.UUIDField(allow_null=True)
    asked = serializers.CharField(source="subject", help_text="What is asked, in a word or two.")
    facts = serializers.SerializerMethodField(
        help_text="{name: text}; null unless the caller may read the mailbox."
    )
    content = ApprovedContentSerializer(
        source="outbound",
        allow_null=True,
        help_text="What is sent if the approval is given; null if nothing is sent. " + FOR_READERS,
    )
    reasons = serializers.ListField(
        child=serializers.CharField(), help_text="Why the action or message needs approval."
    )
    content_hash = serializers.CharField(
        help_text="SHA-256 of everything that the approval covers."
    )
    status = serializers.ChoiceField(ApprovalStatus.choices)
    expires_at = TimestampField()
    decided_at = TimestampField()
    decided_by = NullableTextField()
    decided_via = NullableTextField(
        "admin, api, email, discord, or service if the approval expired."
    )
    outcome = NullableTextField(
        "How far the approved action or message has come, and why no further."
    )
    created_at = TimestampField()

    def to_representation(self, approval: Approval) -> dict[str, Any]:
        """Return the fields; `content` only to a reader of the mailbox."""
        shown = super().to_representation(approval)
        return shown if getattr(approval, "is_readable", False) else {**shown, "content": None}

    def get_facts(self, approval: Approval) -> dict[str, str] | None:
        """Return what is asked, for a reader of the mailbox only."""
        return dict(all_facts_of(approval)) if getattr(approval, "is_readable", False) else None


class ApprovalsQuery(FirmPageQuery):
    """Which approvals to list."""

    status = choice(ApprovalStatus.values, "The approval's status.")


_APPROVAL = OpenApiResponse(ApprovalSerializer, "The approval as it is now.")


def _decision(
    decide: Callable[..., Decided], summary: str, description: str, reason: str
) -> Callable[..., Response]:
    @operation(
        summary,
        description,
        answers={HTTPStatus.OK: _APPROVAL},
        body=SwitchBody,
        example=example(summary, reason=reason),
    )
    def perform(self: Approvals, _: Request, **__: UUID) -> Response:
        approval = self.get_object()
        try:
            self.check_may_decide(approval)
        except PermissionDenied as error:
            why = str(error.detail).rstrip(".")
            refuse(approval, why, by=self.actor, asked=decide.__name__)
            return self.refused(HTTPStatus.FORBIDDEN, PermissionDenied.default_code, why)
        decided = decide(approval, by=self.actor, **self.get_body(SwitchBody))
        if decided.refused:
            return self.refused(HTTPStatus.CONFLICT, "wrong_state", decided.refused)
        return Response(self.represent(self.get_rows().get(pk=approval.pk)))

    return perform


class Approvals(ContentView):
    """The questions of the caller's firms."""

    resource = tag = "approvals"
    model, serializer = Approval, ApprovalSerializer

    list = list_operation(
        "List approvals",
        "The latest first; `status=pending` lists those that wait for a decision.",
        serializer=ApprovalSerializer,
        rows="approvals",
        query=ApprovalsQuery,
    )
    show = show_operation(
        "Show an approval",
        "What is asked, why, and what was decided.",
        answer=OpenApiResponse(ApprovalSerializer, "The approval."),
    )
    approve = _decision(
        approve,
        "Approve",
        "What was asked is done once, if it has not changed since. Only for the mailbox's owner, "
        "and for operators who may read the mailbox. 409 if the approval is decided or expired, "
        "if what was asked has changed, or if the mailbox is disconnected. 409 also for an "
        "automatic reply that the mailbox may not send now, such as a second one to the same "
        "sender within a day.",
        reason="I know the recipient",
    )
    reject = _decision(
        reject,
        "Reject",
        "Nothing is done. Only for the mailbox's owner, and for operators who may read the "
        "mailbox. 409 if the approval is decided or expired.",
        reason="Not to this address",
    )

    def check_may_decide(self, approval: Approval) -> None:
        """Check that the caller may decide.

        Raises:
            PermissionDenied: the caller may not.
        """
        if not self.acts_as_owner(approval.account):
            self.check_role(APPROVE_ROLE, approval.firm_id)
        if not may_decide(approval, self.actor):
            self.permission_denied(self.request, "Only a reader of the mailbox may decide.")

    def refused(self, status: HTTPStatus, code: str, why: str) -> Response:
        """Answer a refused decision; it is committed, because the audit log keeps it."""
        self.keeps_changes = True
        body = problem(status, code, f"{why}.")
        return Response(body, status=status, content_type=PROBLEM_TYPE)

    def get_rows(self, **filters: Any) -> QuerySet[Any]:
        """Return the approvals and what they are about."""
        rows = super().get_rows(**filters)
        return rows.select_related("account", "message", "action", "outbound")
