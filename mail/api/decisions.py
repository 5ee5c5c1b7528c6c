"""`decisions/`: the verdicts on messages, with their source and reasons."""

from __future__ import annotations

from typing import Any, ClassVar
from uuid import UUID

from django.db.models import F, QuerySet
from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers

from interfaces.api.serializers import MomentField
from jobs.api.query import FirmPageQuery, choice
from jobs.api.views import list_operation, show_operation
from jobs.queries.filters import filter_created
from jobs.queries.serializers.fields import NullableTextField, TimestampField
from mail.api.base import FOR_READERS, ContentSerializer, ContentView
from mail.models import CATEGORY_CHOICES, Action, Decision, DecisionSource
from tenants.scope import firm_scope

_CATEGORIES = [category for category, _ in CATEGORY_CHOICES]


class DecisionRowSerializer(ContentSerializer):
    """A verdict on a message, in a list."""

    content: ClassVar[tuple[str, ...]] = ("rationale",)

    account_id = serializers.UUIDField()
    thread_id = serializers.UUIDField()
    message_id = serializers.UUIDField()
    source = serializers.ChoiceField(  # type: ignore[assignment]  # a field of the row, not of the serializer
        DecisionSource.choices, help_text="Who decided."
    )
    category = serializers.ChoiceField(_CATEGORIES)
    confidence = serializers.FloatField(help_text="From 0 to 1.")
    labelled = serializers.BooleanField(
        help_text="False if the confidence is too low for the thread to get this category."
    )
    rationale = NullableTextField(f"Why, in words. {FOR_READERS}")
    job_id = serializers.UUIDField(allow_null=True, help_text="The job that decided.")
    created_at = TimestampField()


class DecisionSerializer(DecisionRowSerializer):
    """A verdict on a message, with what it is based on and what followed from it."""

    content: ClassVar[tuple[str, ...]] = (*DecisionRowSerializer.content, "explanations")

    explanations = serializers.DictField(
        allow_null=True,
        help_text="{salient_features, language, style, automated, labelled, rules, actions}, as "
        f"far as they are known. {FOR_READERS}",
    )
    action_ids = serializers.SerializerMethodField(
        help_text="The actions that the decision asked for, in the order in which it asked."
    )

    def get_action_ids(self, decision: Decision) -> list[UUID]:
        """Return the ids of the decision's actions."""
        with firm_scope(decision.firm_id):
            # No index holds the decision of an action, but all of them are in its thread.
            actions = Action.objects.filter(
                decision=decision,
                message__thread_id=decision.thread_id,  # type: ignore[attr-defined]  # annotated
            )
            return list(actions.order_by("pk").values_list("pk", flat=True))


class DecisionQuery(FirmPageQuery):
    """The page and the filters of decisions."""

    account_id = serializers.UUIDField(required=False, help_text="In this mailbox.")
    thread_id = serializers.UUIDField(required=False, help_text="In this thread.")
    message_id = serializers.UUIDField(required=False, help_text="On this message.")
    source = choice(DecisionSource.values, "Who decided.")
    category = choice(_CATEGORIES, "What was decided.")
    created_after = MomentField(required=False, help_text="Decided at this time or later.")
    created_before = MomentField(required=False, help_text="Decided before this time.")


class Decisions(ContentView):
    """The decisions of the caller's firms."""

    resource = tag = "decisions"
    model, serializer = Decision, DecisionSerializer

    list = list_operation(
        "List decisions",
        "The latest first; a later verdict on the same message is a row of its own. Only readers "
        "of the mailbox see the rationale.",
        serializer=DecisionRowSerializer,
        rows="decisions",
        query=DecisionQuery,
    )
    show = show_operation(
        "Show a decision",
        "What was decided, what followed from it and, for readers of the mailbox, why.",
        answer=OpenApiResponse(DecisionSerializer, "The decision."),
    )

    def get_rows(self, **filters: Any) -> QuerySet[Any]:
        """Return the decisions with their messages' threads."""
        created = filters.pop("created_after", None), filters.pop("created_before", None)
        if "thread_id" in filters:
            filters["message__thread_id"] = filters.pop("thread_id")
        rows = super().get_rows(**filters).annotate(thread_id=F("message__thread_id"))
        return filter_created(rows, *created)
