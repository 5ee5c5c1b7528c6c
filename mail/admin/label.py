"""Labels in the admin, and their descriptions."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest

from interfaces.admin.operations import Operation, OptionalReasonForm, TextAnswer
from mail.admin.base import MailAdmin
from mail.models import MailLabel
from mail.services.mailboxes.content_access import readable
from mail.services.syncing.labels import describe_label
from tenants.admin.base import FirmFilter, TenantOperationsAdmin


class DescribeForm(OptionalReasonForm):
    """A label's description, and whether the classifier may choose the label."""

    description = TextAnswer(
        required=False, help_text="Tells the classifier what the label is for."
    )
    available_to_classifier = forms.BooleanField(
        required=False, label="The classifier may choose this label"
    )
    from_row = ("description", "available_to_classifier")
    field_order = (*from_row, "reason")


DESCRIBE = Operation(
    name="describe",
    label="Describe",
    icon="edit",
    variant="primary",
    form=DescribeForm,
    effect="A sync does not change what you write here. To rename the label, use Gmail.",
    seen=lambda label: f"{label.description} {label.available_to_classifier}",
    perform=describe_label,
    report=lambda label: f"{label.name} is changed.",
)


@admin.register(MailLabel)
class MailLabelAdmin(TenantOperationsAdmin, MailAdmin):
    """The labels of the mailboxes that the user may read."""

    empty_text = "The labels of a mailbox are listed after its first sync."
    operations = (DESCRIBE,)
    list_display = ("name", "account", "key", "available_to_classifier", "firm")
    list_select_related = ("firm", "account")
    list_filter = (FirmFilter,)
    search_fields = ("name__icontains",)
    search_help_text = "Part of the name"
    ordering = ("account", "name")
    fields = (
        "name",
        "account",
        "key",
        "gmail_label_id",
        "description",
        "available_to_classifier",
        "created_at",
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Leave out labels of mailboxes that the user may not read: their names reveal much."""
        rows: QuerySet[Any] = super().get_queryset(request)
        return rows.filter(readable(request.user.pk, "account__"))
