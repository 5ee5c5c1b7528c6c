"""The filters of the mail lists: their choices come from code, never from rows."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.db.models import QuerySet

from jobs.admin.filters import ChoiceFilter, Choices, FieldFilter
from jobs.engine.database_time import database_now
from mail.models import (
    CATEGORY_CHOICES,
    ActionStatus,
    ActionType,
    DecisionSource,
    EventType,
    SyncStatus,
    ThreadStatus,
)

_SPANS = {
    "24h": ("Last 24 hours", timedelta(hours=24)),
    "7d": ("Last 7 days", timedelta(days=7)),
    "30d": ("Last 30 days", timedelta(days=30)),
}


class CategoryFilter(FieldFilter):
    """Rows of one category of mail."""

    title = "category"
    parameter_name = "category"
    field = "category"

    def offered(self) -> Choices:
        """Offer every category."""
        return list(CATEGORY_CHOICES)


class ThreadCategoryFilter(CategoryFilter):
    """Threads of one category."""

    field = "classification"


class MessageCategoryFilter(CategoryFilter):
    """Messages whose thread has one category."""

    field = "thread__classification"


class ThreadStatusFilter(FieldFilter):
    """Threads that stand at one point."""

    title = "status"
    parameter_name = "status"
    field = "status"

    def offered(self) -> Choices:
        """Offer every status."""
        return _labels(ThreadStatus)


class SourceFilter(FieldFilter):
    """Decisions of one source."""

    title = "source"
    parameter_name = "source"
    field = "source"

    def offered(self) -> Choices:
        """Offer every source."""
        return _labels(DecisionSource)


class ActionTypeFilter(FieldFilter):
    """Actions of one type."""

    title = "type"
    parameter_name = "type"
    field = "action_type"

    def offered(self) -> Choices:
        """Offer every type."""
        return _labels(ActionType)


class ActionStatusFilter(FieldFilter):
    """Actions that stand at one point."""

    title = "status"
    parameter_name = "status"
    field = "status"

    def offered(self) -> Choices:
        """Offer every status."""
        return _labels(ActionStatus)


class EventTypeFilter(FieldFilter):
    """Events of one type."""

    title = "type"
    parameter_name = "type"
    field = "event_type"

    def offered(self) -> Choices:
        """Offer every type."""
        return _labels(EventType)


class SyncStatusFilter(FieldFilter):
    """Mailboxes whose cursor can be trusted, or not."""

    title = "sync"
    parameter_name = "sync"
    field = "sync_status"

    def offered(self) -> Choices:
        """Offer every state."""
        return _labels(SyncStatus)


class DirectionFilter(ChoiceFilter):
    """Messages the owner wrote, or those of others."""

    title = "direction"
    parameter_name = "direction"

    def offered(self) -> Choices:
        """Offer both."""
        return [("in", "received"), ("out", "sent")]

    def narrow(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Keep this direction."""
        return rows.filter(outgoing=value == "out")


class CreatedFilter(ChoiceFilter):
    """Rows made in the last days."""

    title = "age"
    parameter_name = "age"
    field = "created_at"

    def offered(self) -> Choices:
        """Offer a few spans."""
        return [(value, text) for value, (text, _) in _SPANS.items()]

    def narrow(self, rows: QuerySet[Any], value: str) -> QuerySet[Any]:
        """Keep what is no older."""
        return rows.filter(**{f"{self.field}__gte": database_now() - _SPANS[value][1]})


class ReceivedFilter(CreatedFilter):
    """Messages Gmail received in the last days."""

    field = "internal_date"


class LastMessageFilter(CreatedFilter):
    """Threads with a message of the last days."""

    field = "last_message_at"


def _labels(
    words: type[ThreadStatus | DecisionSource | ActionType | ActionStatus | EventType | SyncStatus],
) -> Choices:
    return [(word.value, str(word.label)) for word in words]
