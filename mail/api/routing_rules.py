"""`routing-rules/`: which mail goes to the pipeline and which to an agent."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from uuid import UUID

from django.db.models import Q, QuerySet
from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.api.schema import operation
from interfaces.api.serializers import FlagField, StrictSerializer, TextField, WholeNumberField
from jobs.api.requests import FirmBody
from jobs.api.views import example, list_operation, row_operation, show_operation
from jobs.queries.lists import Page
from jobs.queries.serializers.fields import NullableTextField, TimestampField
from mail.api.base import FirmRowSerializer, MailView
from mail.api.serializers import SwitchBody
from mail.models import Route, RoutingRule
from mail.models.routing_rule import MAX_PROFILE_LENGTH
from mail.services.mailboxes.content_access import readable
from mail.services.rules import routing_operations
from mail.services.rules.reach import Limits
from mail.services.rules.settings import MAX_NAME_LENGTH, MAX_PRIORITY
from tenants.models import Role

_MATCH = (
    "The conditions, all of which must match: all, sender_email, sender_domain, "
    "subject_contains, header_match {header: pattern}, forwarded_from."
)


class RoutingRuleSerializer(FirmRowSerializer):
    """A routing rule."""

    account_id = serializers.UUIDField(
        allow_null=True, help_text="Null: the rule applies to every mailbox."
    )
    name = serializers.CharField()
    position = serializers.IntegerField(
        help_text="Lower numbers are checked first; the first match wins."
    )
    match = serializers.DictField(help_text=_MATCH)
    route = serializers.ChoiceField(Route.choices)
    profile = NullableTextField("The name of the agent's profile; null for the pipeline.")
    enabled = serializers.BooleanField()
    enabled_by = NullableTextField(
        "Who enabled the rule in its present form; null: not known.",
        source="enabled_by.username",
        default=None,
    )
    limits = serializers.SerializerMethodField(
        help_text="A sentence: in how many private mailboxes an enabled rule is not used, "
        "and why; null: in none."
    )
    disabled_reason = NullableTextField(
        "Why Mailroom switched the rule off; null if Mailroom did not."
    )
    created_at = TimestampField()

    def get_limits(self, rule: RoutingRule) -> str | None:
        """Return where an enabled rule is not applied."""
        limits = self.context.get("limits") or Limits()
        return limits.of_routing(rule) or None if rule.enabled else None


class _Settings(StrictSerializer):
    """The settings of a routing rule."""

    name = TextField(max_length=MAX_NAME_LENGTH, required=False)
    account_id = serializers.UUIDField(required=False, allow_null=True)
    position = WholeNumberField(required=False, min_value=0, max_value=MAX_PRIORITY)
    match = serializers.DictField(required=False, help_text=_MATCH)
    route = serializers.ChoiceField(Route.choices, required=False)
    profile = TextField(required=False, allow_blank=True, max_length=MAX_PROFILE_LENGTH)
    enabled = FlagField(required=False)


class CreateRoutingRuleBody(_Settings, FirmBody):
    """A new routing rule."""

    name = TextField(max_length=MAX_NAME_LENGTH)
    match = serializers.DictField(help_text=_MATCH)


class ChangeRoutingRuleBody(_Settings, SwitchBody):
    """The settings to change; the others stay as they are."""


_RULE = OpenApiResponse(RoutingRuleSerializer, "The rule as it is now.")


class RoutingRules(MailView):
    """The routing rules of the caller's firms."""

    resource, tag = "routing_rules", "routing rules"
    model, serializer = RoutingRule, RoutingRuleSerializer

    list = list_operation(
        "List routing rules",
        "The newest first. They are checked in the order of `position`, not in this order.",
        serializer=RoutingRuleSerializer,
        rows="routing rules",
    )
    show = show_operation("Show a routing rule", "With its conditions.", answer=_RULE)
    change = row_operation(
        routing_operations.change_routing_rule,
        "Change a routing rule",
        "The change applies from the next message on. Needs the role admin.",
        role=Role.ADMIN,
        body=ChangeRoutingRuleBody,
        answer=_RULE,
        example=example("Earlier", position=10, reason="Before the newsletters"),
    )
    delete_rule = row_operation(
        routing_operations.delete_routing_rule,
        "Delete a routing rule",
        "Messages that the rule has already routed stay where they are. Needs the role admin.",
        role=Role.ADMIN,
        body=SwitchBody,
        answer=OpenApiResponse(RoutingRuleSerializer, "The rule as it was."),
        example=example("Delete", reason="The shop is closed"),
    )

    @operation(
        "Create a routing rule",
        "The rule applies to mail that arrives from now on. Needs the role admin.",
        body=CreateRoutingRuleBody,
        answers={HTTPStatus.CREATED: _RULE},
        example=example(
            "A shop's inquiries to an agent",
            name="Shop",
            match={"forwarded_from": "shop@example.org"},
            route="agent",
            profile="shop",
        ),
    )
    def create(self, _: Request, **__: UUID) -> Response:
        body = self.get_body(CreateRoutingRuleBody)
        firm = self.firm_named(body.pop("firm", None), Role.ADMIN)
        rule = routing_operations.create_routing_rule(firm.pk, by=self.actor, **body)
        return Response(self.represent(self.get_rows().get(pk=rule.pk)), HTTPStatus.CREATED)

    def get_rows(self, **filters: Any) -> QuerySet[Any]:
        """Return the rules; a mailbox's rules only to its readers."""
        rows = super().get_rows(**filters).select_related("enabled_by", "account__owner")
        return rows.filter(Q(account=None) | readable(self.request.user.pk, "account__"))

    def get_context(self, page: Page[Any]) -> dict[str, Any]:
        """Share one `Limits` between the rules of a page."""
        return {**super().get_context(page), "limits": Limits()}
