"""`labels/`: the labels of the mailboxes that the caller may read."""

from __future__ import annotations

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiResponse

from jobs.api.views import QueueView, example, list_operation, row_operation, show_operation
from mail.api.serializers import LabelBody, LabelQuery, LabelSerializer
from mail.models import MailLabel
from mail.services.mailboxes.content_access import readable
from mail.services.syncing.labels import describe_label


class Labels(QueueView):
    """The labels of the caller's firms; only readers of a mailbox see its labels."""

    resource = tag = "labels"
    model, serializer = MailLabel, LabelSerializer

    list = list_operation(
        "List labels",
        "The newest first. Only labels of mailboxes whose mail the caller may read are listed.",
        serializer=LabelSerializer,
        rows="labels",
        query=LabelQuery,
    )
    show = show_operation(
        "Show a label",
        "The label's name in Gmail, and what people say the label is for.",
        answer=OpenApiResponse(LabelSerializer, "The label."),
    )
    describe = row_operation(
        describe_label,
        "Describe a label",
        "Says what the label is for, and whether the classifier may choose it. To rename "
        "the label, use Gmail. Needs the role operator.",
        body=LabelBody,
        answer=OpenApiResponse(LabelSerializer, "The label as it is now."),
        example=example(
            "Describe", description="Offers of suppliers", available_to_classifier=True
        ),
    )

    def get_rows(self, **filters: Any) -> QuerySet[Any]:
        """Return the labels that the caller may see."""
        rows = super().get_rows().filter(readable(self.request.user.pk, "account__"))
        return rows.filter(**filters)
