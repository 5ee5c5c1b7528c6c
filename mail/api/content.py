"""What messages, threads and outbound messages share: what mail says is for its readers alone."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import Case, QuerySet, When
from rest_framework import serializers

from mail.api.base import MailView
from mail.services.mailboxes.content_access import readable

FOR_READERS = "Null for who may not read the mailbox."


class ContentSerializer(serializers.Serializer[Any]):
    """A row of a mailbox's mail; its `content` fields are null for who may not read the mailbox."""

    content: ClassVar[tuple[str, ...]] = ()

    def to_representation(self, row: Any) -> dict[str, Any]:
        """Return the fields, those that quote the mail for a reader only."""
        shown = super().to_representation(row)
        return shown if row.is_readable else {**shown, **dict.fromkeys(self.content)}


class PersonSerializer(serializers.Serializer[Any]):
    """Somebody who sends or gets mail."""

    # Rows are shown as they are, however they were stored.
    name = serializers.CharField(default="")
    address = serializers.CharField(default="")


class ContentView(MailView):
    """Rows of mailboxes' mail: that they are there is for the firm, what they say for readers."""

    def get_rows(self, **filters: Any) -> QuerySet[Any]:
        """Return the rows, each with whether the caller may read its mailbox."""
        may_read = Case(When(readable(self.request.user.pk, "account__"), then=True), default=False)
        rows: QuerySet[Any] = super().get_rows().filter(**filters).annotate(is_readable=may_read)
        return rows
