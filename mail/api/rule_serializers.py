"""Rules as JSON, and the bodies of their operations."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from interfaces.api.serializers import TextField, WholeNumberField
from jobs.api.requests import FirmBody
from jobs.queries.serializers.fields import NullableTextField, TimestampField
from mail.api.base import FirmRowSerializer, ScopedSettings
from mail.api.serializers import CATEGORIES, SwitchBody
from mail.errors import ConditionsInvalid
from mail.models import ActionType, Rule, SafeMode, Scope
from mail.rules.conditions import parse_conditions
from mail.rules.wording import in_words
from mail.services.rules.backlog import MAX_DAYS
from mail.services.rules.reach import Limits
from mail.services.rules.settings import MAX_ACTIONS, MAX_NAME_LENGTH, MAX_PRIORITY


class RuleActionSerializer(serializers.Serializer[Any]):
    """One action of a rule."""

    action = serializers.ChoiceField(ActionType.choices)
    parameters = serializers.DictField(help_text='{"label": …} for the label actions; else {}.')


class RuleSerializer(FirmRowSerializer):
    """A rule: its scope and conditions, and what follows for messages that match."""

    account_id = serializers.UUIDField(
        allow_null=True, help_text="Null: the rule applies to every mailbox."
    )
    name = serializers.CharField()
    scope = serializers.ChoiceField(Scope.choices)
    scope_ref = serializers.CharField(
        help_text="The domain or address to which the scope is limited, or empty."
    )
    priority = serializers.IntegerField(help_text="Lower numbers are checked first.")
    enabled = serializers.BooleanField()
    enabled_by = NullableTextField(
        "Who enabled the rule last; null: not known.",
        source="enabled_by.username",
        default=None,
    )
    limits = serializers.SerializerMethodField(
        help_text="A sentence: in how many private mailboxes an enabled rule does less, and "
        "why; null: in none."
    )
    disabled_reason = NullableTextField(
        "Why Mailroom switched the rule off; null if Mailroom did not."
    )
    corrections = serializers.IntegerField(
        help_text="After how many corrections Mailroom proposed the rule; 0: a person made it."
    )
    conditions = serializers.DictField(
        help_text="The tree of conditions: groups with `op`, leaves with `type`."
    )
    in_words = serializers.SerializerMethodField(
        help_text="The conditions in words, one line each."
    )
    category = NullableTextField("Null: the classifier decides.")
    actions = RuleActionSerializer(many=True)
    safe_mode = serializers.ChoiceField(SafeMode.choices)
    tried_at = TimestampField(
        "When the rule was tried in its present form; null: it must be tried before it can be "
        "enabled."
    )
    created_at = TimestampField()
    changed_at = TimestampField()

    def get_limits(self, rule: Rule) -> str | None:
        """Return where an enabled rule does less."""
        limits = self.context.get("limits") or Limits()
        return limits.of(rule) or None if rule.enabled else None

    def get_in_words(self, rule: Rule) -> list[str]:
        """Return the conditions in words."""
        try:
            return in_words(parse_conditions(rule.conditions))
        except ConditionsInvalid as error:
            return [str(error)]


class _RuleSettings(ScopedSettings):
    """The settings of a rule."""

    name = TextField(max_length=MAX_NAME_LENGTH, required=False)
    priority = WholeNumberField(required=False, min_value=0, max_value=MAX_PRIORITY)
    conditions = serializers.DictField(
        required=False, help_text='A group {"op", "children"}, or a leaf {"type", …}.'
    )
    category = serializers.ChoiceField(CATEGORIES, required=False, allow_null=True)
    actions = serializers.ListField(
        child=serializers.DictField(), required=False, max_length=MAX_ACTIONS
    )
    safe_mode = serializers.ChoiceField(SafeMode.choices, required=False)

    def validate_category(self, category: str | None) -> str:
        """Return the category as it is stored."""
        return category or ""


class CreateRuleBody(_RuleSettings, FirmBody):
    """A new rule."""

    name = TextField(max_length=MAX_NAME_LENGTH)
    conditions = serializers.DictField(
        help_text='A group {"op", "children"}, or a leaf {"type", …}.'
    )


class ChangeRuleBody(_RuleSettings, SwitchBody):
    """The settings to change; the others stay as they are."""


class ApplyRuleBody(SwitchBody):
    """How far back a rule is applied."""

    days = WholeNumberField(min_value=1, max_value=MAX_DAYS, help_text="How many days of mail.")


class MatchSerializer(serializers.Serializer[Any]):
    """A message that a rule would have matched."""

    id = serializers.UUIDField()
    account_id = serializers.UUIDField()
    sender_address = serializers.CharField()
    subject = serializers.CharField()
    internal_date = TimestampField()


class TrialSerializer(serializers.Serializer[Any]):
    """What a rule would have matched among the newest mail that the caller may read."""

    looked_at = serializers.IntegerField(
        help_text="How many messages the rule was checked against."
    )
    matched = MatchSerializer(many=True)
    limits = NullableTextField(
        "A sentence that says in how many private mailboxes the rule does less if the caller "
        "enables it; null: in none."
    )


class RuleJobsSerializer(serializers.Serializer[Any]):
    """The jobs that apply a rule to old mail."""

    job_ids = serializers.ListField(child=serializers.UUIDField())
