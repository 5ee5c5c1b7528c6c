"""The filters of the mail lists."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from uuid import UUID

from django.db.models import QuerySet

from interfaces.admin.base import ParameterRefused
from interfaces.admin.filters import SPANS, ChoiceFilter, LinkFilter, field_filter, flag_filter
from jobs.admin.filters import AgeFilter
from mail.models import (
    CATEGORY_CHOICES,
    ActionStatus,
    ActionType,
    ApprovalStatus,
    CallType,
    Connection,
    DecisionSource,
    DocumentStatus,
    DraftSource,
    DraftStatus,
    EventType,
    MailAccount,
    Mode,
    OutboundStatus,
    ReminderStatus,
    RunStatus,
    SyncStatus,
    ThreadStatus,
)
from mail.services.mailboxes.briefing import open_among

CategoryFilter = field_filter("category", CATEGORY_CHOICES)
ThreadCategoryFilter = field_filter("category", CATEGORY_CHOICES, field="classification")
MessageCategoryFilter = field_filter("category", CATEGORY_CHOICES, field="thread__classification")
ThreadStatusFilter = field_filter("status", ThreadStatus.choices)
SourceFilter = field_filter("source", DecisionSource.choices)
ActionTypeFilter = field_filter("type", ActionType.choices, field="action_type")
ActionStatusFilter = field_filter("status", ActionStatus.choices)
ApprovalStatusFilter = field_filter("status", ApprovalStatus.choices)
OutboundStatusFilter = field_filter("status", OutboundStatus.choices)
DocumentStatusFilter = field_filter("status", DocumentStatus.choices)
DraftStatusFilter = field_filter("status", DraftStatus.choices)
DraftSourceFilter = field_filter("source", DraftSource.choices)
EventTypeFilter = field_filter("type", EventType.choices, field="event_type")
ConnectionFilter = field_filter("connection", Connection.choices)
ModeFilter = field_filter("mode", Mode.choices)
SyncStatusFilter = field_filter("sync", SyncStatus.choices, field="sync_status")
ReminderStatusFilter = field_filter("status", ReminderStatus.choices)
RunStatusFilter = field_filter("status", RunStatus.choices)
CallTypeFilter = field_filter("type", CallType.choices, field="call_type")
EnabledFilter = flag_filter("enabled")


class ProposedFilter(ChoiceFilter):
    """Rules that Mailroom proposes, or rules of people."""

    title = "origin"
    parameter_name = "origin"
    options = (("proposed", "proposed"), ("made", "somebody's"))

    def narrow(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Return the rules of this origin."""
        return rows.filter(corrections__gt=0) if value == "proposed" else rows.filter(corrections=0)


class DirectionFilter(ChoiceFilter):
    """Messages that the account's owner sent, or received."""

    title = "direction"
    parameter_name = "direction"
    options = (("in", "received"), ("out", "sent"))

    def narrow(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Return the messages of this direction."""
        return rows.filter(outgoing=value == "out")


class CreatedFilter(AgeFilter):
    """Rows created in the last days."""

    options = tuple((span, SPANS[span][0]) for span in ("24h", "7d", "30d"))


class ReceivedFilter(CreatedFilter):
    """Messages that Gmail received in the last days."""

    field = "internal_date"


class LastMessageFilter(CreatedFilter):
    """Threads with a message of the last days."""

    field = "last_message_at"


class BriefingFilter(LinkFilter):
    """Threads that a mailbox's briefing counts, as it links to them."""

    title = "briefing of"
    parameter_name = "briefing"

    def text_of(self, value: str) -> str:
        """Return the mailbox's address."""
        with suppress(ValueError):
            account = MailAccount.objects.filter(pk=UUID(value)).first()
            if account is not None:
                return str(account.address)
        raise ParameterRefused(self.parameter_name, "There is no such mailbox.")

    def narrow(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Return the threads that this briefing counts."""
        return open_among(rows.filter(account=value))
