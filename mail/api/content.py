"""What messages, threads and outbound messages share: only readers of a mailbox see its content."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import Case, QuerySet, When
from rest_framework import serializers

from mail.api.base import FirmRowSerializer, MailView
from mail.services.mailboxes.content_access import readable

FOR_READERS = "Null unless the caller may read the mailbox."


class ContentSerializer(FirmRowSerializer):
    """A row of a mailbox's mail; its `content` fields are null for callers who may not read it."""

    content: ClassVar[tuple[str, ...]] = ()

    def to_representation(self, row: Any) -> dict[str, Any]:
        """Return the fields; those that quote the mail only to a reader of the mailbox."""
        shown = super().to_representation(row)
        return shown if row.is_readable else {**shown, **dict.fromkeys(self.content)}


class PersonSerializer(serializers.Serializer[Any]):
    """Somebody who sends or gets mail."""

    # The defaults allow for stored addresses that lack a part.
    name = serializers.CharField(default="")
    address = serializers.CharField(default="")


class ContentView(MailView):
    """Rows of mailboxes' mail: the firm sees that they exist, only readers see what they say."""

    def get_rows(self, **filters: Any) -> QuerySet[Any]:
        """Return the rows, annotated with whether the caller may read their mailbox."""
        may_read = Case(When(readable(self.request.user.pk, "account__"), then=True), default=False)
        rows: QuerySet[Any] = super().get_rows().filter(**filters).annotate(is_readable=may_read)
        return rows
