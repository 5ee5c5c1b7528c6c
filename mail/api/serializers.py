"""Mail accounts as JSON, and the bodies of their operations."""

from __future__ import annotations

from typing import Any

from rest_framework import serializers

from interfaces.api.serializers import FlagField, StrictSerializer, TextField, WholeNumberField
from jobs.api.query import FirmPageQuery
from jobs.queries.serializers.fields import NullableTextField, TimestampField
from mail.api.base import FirmRowSerializer
from mail.llm.base import Category
from mail.models import Connection, Mode, SyncStatus
from mail.services.reminders.follow_ups import MAX_DAYS as MAX_FOLLOW_UP_DAYS

MAX_REASON_LENGTH = 2000
MAX_KEEP_DAYS = 3650
CATEGORIES = [str(category) for category in Category]


class AccountSerializer(FirmRowSerializer):
    """A mailbox: its connection, what Mailroom may do in it, and how far it has been read."""

    address = serializers.CharField()
    display_name = NullableTextField()
    owner = NullableTextField(
        "Who connected it; null for a local mailbox.", source="owner.username", default=None
    )
    shared = serializers.BooleanField(help_text="Every member of the firm reads its mail.")
    aliases = serializers.ListField(
        child=serializers.CharField(), help_text="The owner's other addresses."
    )
    connection = serializers.ChoiceField(Connection.choices)
    mode = serializers.ChoiceField(Mode.choices)
    paused_by = NullableTextField(
        "What paused the mailbox, `switch` or `label`; null while it is not paused."
    )
    active = serializers.BooleanField(
        help_text="False if the mailbox is switched off; its jobs are then canceled."
    )
    sync_status = serializers.ChoiceField(SyncStatus.choices)
    history_cursor = serializers.CharField(
        allow_null=True, help_text="Gmail's history id up to which the mailbox is synced."
    )
    last_sync_at = TimestampField()
    follow_up_days = serializers.IntegerField(
        allow_null=True,
        help_text="The owner is reminded after this many days without an answer; null: never.",
    )
    read_attachments = serializers.BooleanField(
        help_text="Attachments of new mail are read, unless the setting READ_ATTACHMENTS is "
        "off for everybody."
    )
    watch_expires_at = TimestampField("When Gmail stops sending notifications.")
    watch_error = NullableTextField(
        "Why the mailbox's watch was not renewed; null once it is renewed."
    )
    held_until = TimestampField(
        "Gmail asked for fewer requests: no job calls Gmail before this time."
    )
    last_error = NullableTextField(
        "The last error that Gmail answered, or that a worker lacks the key of the token."
    )
    last_error_at = TimestampField()
    delete_mail_at = TimestampField("When the mail of a disconnected mailbox is deleted.")
    created_at = TimestampField()


class RequestedSyncSerializer(serializers.Serializer[Any]):
    """The job of a sync that was asked for."""

    job_id = serializers.UUIDField()
    created = serializers.BooleanField(
        help_text="False: a sync already waited, and this is its job."
    )


class _ReasonField(TextField):
    """An optional reason."""

    def __init__(self) -> None:
        super().__init__(
            default="",
            allow_blank=True,
            max_length=MAX_REASON_LENGTH,
            help_text="Kept in the audit log.",
        )


class SwitchBody(StrictSerializer):
    """The body of an operation with an optional reason."""

    reason = _ReasonField()


class AttachmentsBody(SwitchBody):
    """Whether attachments are read."""

    read = FlagField(
        help_text="False: neither attachments of new mail nor those that already wait are read."
    )


class FollowUpsBody(SwitchBody):
    """After how many days the owner is reminded of what nobody answered."""

    days = WholeNumberField(
        allow_null=True, min_value=1, max_value=MAX_FOLLOW_UP_DAYS, help_text="Null: never."
    )


class SyncBody(SwitchBody):
    """How to sync."""

    full = FlagField(default=False, help_text="Also scan the mail of the last days.")


class LabelSerializer(FirmRowSerializer):
    """A label of a mailbox."""

    account_id = serializers.UUIDField()
    gmail_label_id = serializers.CharField()
    name = serializers.CharField(help_text="The label's name in Gmail.")
    key = NullableTextField(
        "Which of Mailroom's own labels this is; null for a label of the person's."
    )
    description = serializers.CharField(help_text="Tells the classifier what the label is for.")
    available_to_classifier = serializers.BooleanField()
    created_at = TimestampField()


class LabelQuery(FirmPageQuery):
    """Which labels to list."""

    account_id = serializers.UUIDField(required=False, help_text="In this mailbox.")


class LabelBody(SwitchBody):
    """What people say about a label; what is left out stays."""

    description = TextField(
        required=False,
        allow_blank=True,
        max_length=MAX_REASON_LENGTH,
        help_text="What the label is for.",
    )
    available_to_classifier = FlagField(
        required=False, help_text="Whether the classifier may choose this label."
    )


class DisconnectBody(StrictSerializer):
    """What becomes of the stored mail, and why the mailbox is disconnected."""

    keep_days = WholeNumberField(
        min_value=0,
        max_value=MAX_KEEP_DAYS,
        help_text="How many days the mail is kept; 0 deletes it now.",
    )
    reason = TextField(max_length=MAX_REASON_LENGTH, help_text="Kept in the audit log.")
