"""The briefing of a mailbox as JSON."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from interfaces.api.serializers import QuerySerializer
from jobs.queries.serializers.fields import NullableTextField, TimestampField
from mail.models import ThreadStatus
from mail.services.mailboxes.briefing import DAYS, MAX_DAYS, SHOWN

_FIRST = f"The first {SHOWN} of them."


class BriefingQuery(QuerySerializer):
    """How far back the briefing looks."""

    days = serializers.IntegerField(
        required=False,
        default=DAYS,
        min_value=1,
        max_value=MAX_DAYS,
        help_text="How many days of threads are counted.",
    )


class _ThreadSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    subject = serializers.CharField()
    category = NullableTextField(source="classification")
    status = serializers.ChoiceField(ThreadStatus.choices)
    last_message_at = TimestampField()


class _DraftSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    thread_id = serializers.UUIDField()
    subject = serializers.CharField()
    edited = serializers.BooleanField()
    written_at = TimestampField()


class _ApprovalSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    message_id = serializers.UUIDField(allow_null=True)
    asked = serializers.CharField(source="subject", help_text="What is asked, in a word or two.")
    expires_at = TimestampField()


class _OutboundSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    message_id = serializers.UUIDField(
        allow_null=True, help_text="The message that this one answers or forwards."
    )
    subject = serializers.CharField()
    error = NullableTextField("Why nobody can tell whether the message was sent.")
    created_at = TimestampField()


class _RuleSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    name = serializers.CharField()
    category = NullableTextField()
    corrections = serializers.IntegerField()


class _Threads(serializers.Serializer[Any]):
    count = serializers.IntegerField()
    first = _ThreadSerializer(many=True, help_text=_FIRST)


class _Drafts(serializers.Serializer[Any]):
    count = serializers.IntegerField()
    first = _DraftSerializer(many=True, help_text=_FIRST)


class _Approvals(serializers.Serializer[Any]):
    count = serializers.IntegerField()
    first = _ApprovalSerializer(many=True, help_text=_FIRST)


class _InDoubt(serializers.Serializer[Any]):
    count = serializers.IntegerField()
    first = _OutboundSerializer(many=True, help_text=_FIRST)


class _Rules(serializers.Serializer[Any]):
    count = serializers.IntegerField()
    first = _RuleSerializer(many=True, help_text=_FIRST)


class BriefingSerializer(serializers.Serializer[Any]):
    """What waits in a mailbox for its person."""

    account_id = serializers.UUIDField(source="account.pk")
    firm = serializers.CharField(source="account.firm.slug", help_text="The firm's slug.")
    days = serializers.IntegerField()
    categories = serializers.DictField(
        child=serializers.IntegerField(), help_text="Threads that are not done, by category."
    )
    for_you = _Threads(help_text="Threads that wait for the person, the oldest first.")
    for_others = _Threads(help_text="Threads that wait for others, the oldest first.")
    follow_ups = _Threads(
        help_text="Threads that nobody answered and of which the owner was reminded."
    )
    drafts = _Drafts()
    approvals = _Approvals(help_text="Questions that wait for approval.")
    in_doubt = _InDoubt(
        help_text="Outbound messages that need a look: nobody can tell whether they were sent."
    )
    proposed_rules = _Rules(help_text="Rules that were proposed after the person's corrections.")
