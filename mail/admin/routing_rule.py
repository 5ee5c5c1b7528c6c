"""Routing rules in the admin."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest

from interfaces.admin.base import code_block, column
from interfaces.admin.operations import OperationForm, OptionalReasonForm
from jobs.admin.base import pretty_json
from jobs.admin.payload_field import PayloadField
from mail.admin.base import MailAdmin
from mail.admin.filters import EnabledFilter
from mail.admin.operation import ChangeRow, DeleteRow, NewRow
from mail.admin.scoped import MailboxChoice
from mail.models import Route, RoutingRule
from mail.models.routing_rule import MAX_PROFILE_LENGTH
from mail.services.mailboxes.content_access import readable
from mail.services.rules import routing_operations
from mail.services.rules.reach import Limits
from mail.services.rules.settings import MAX_NAME_LENGTH, MAX_PRIORITY
from tenants.admin.base import FirmFilter, TenantOperationsAdmin
from tenants.admin.firm_choice import SingleFirmForm
from tenants.models import Role


class RoutingForm(OperationForm):
    """A routing rule's settings."""

    from_row = ("name", *routing_operations.DEFAULTS)
    name = forms.CharField(max_length=MAX_NAME_LENGTH)
    account_id = MailboxChoice(required=False, empty_label="Every mailbox of the firm")
    position = forms.IntegerField(
        initial=100,
        min_value=0,
        max_value=MAX_PRIORITY,
        help_text="Lower numbers are checked first.",
    )
    match = PayloadField(
        rows=6,
        label="Conditions",
        help_text='{"sender_domain": "shop.example", "subject_contains": "order"}: everything given '
        "must match. Possible are all (true), sender_email, sender_domain, "
        "subject_contains, header_match {header: pattern}, forwarded_from.",
    )
    route = forms.ChoiceField(choices=Route.choices, label="Goes to")
    profile = forms.CharField(
        required=False,
        max_length=MAX_PROFILE_LENGTH,
        help_text="The agent's profile, if mail goes to an agent.",
    )
    enabled = forms.BooleanField(required=False, initial=True)

    def prepare(self, request: HttpRequest, row: Any) -> None:
        """Offer mailboxes whose mail the user may read, and set the current values."""
        stored = {} if row is None else row.match
        self.fields["match"].show(stored)  # type: ignore[attr-defined]  # a payload field
        self.fields["account_id"].offer(request, row)  # type: ignore[attr-defined]
        self._stored = stored

    def clean_match(self) -> Any:
        """Return the conditions; if the text was not changed, the stored ones."""
        given = self.cleaned_data["match"]
        return self._stored if given is None else given


class NewRoutingForm(SingleFirmForm, RoutingForm):
    """The new rule's firm and settings."""

    role = Role.ADMIN
    field_order = ("firm", *RoutingForm.base_fields)


class ChangeRoutingForm(OptionalReasonForm, RoutingForm):
    """A routing rule's settings, and the reason of the change."""

    field_order = (*RoutingForm.base_fields, "reason")


def _seen(rule: RoutingRule) -> str:
    return str([getattr(rule, name) for name in routing_operations.SETTINGS])


NEW = NewRow(
    label="New routing rule",
    form=NewRoutingForm,
    effect="The rule applies to mail that arrives from now on.",
    perform=lambda *, firm, **answers: routing_operations.create_routing_rule(firm.pk, **answers),
    report=lambda rule: f"{rule.name} is stored.",
)
OPERATIONS = (
    ChangeRow(
        variant="primary",
        form=ChangeRoutingForm,
        effect="The change applies from the next message on.",
        seen=_seen,
        perform=routing_operations.change_routing_rule,
        report=lambda rule: f"{rule.name} is changed.",
    ),
    DeleteRow(
        effect="The rule is deleted. Messages that it has already routed stay where they are.",
        seen=_seen,
        perform=routing_operations.delete_routing_rule,
        report=lambda rule: f"{rule.name} is deleted.",
    ),
)


def _goes_to(rule: RoutingRule) -> str:
    return f"Agent: {rule.profile}" if rule.route == Route.AGENT else "Pipeline"


@admin.register(RoutingRule)
class RoutingRuleAdmin(TenantOperationsAdmin, MailAdmin):
    """Routing rules, in the order in which they are applied."""

    empty_text = "All mail goes to the pipeline."
    list_operations = (NEW,)
    operations = OPERATIONS
    list_display = ("name", "position", "goes_to", "enabled", "account", "firm")
    list_select_related = ("firm", "account")
    list_filter = (EnabledFilter, FirmFilter)
    search_fields = ("name__icontains",)
    search_help_text = "Part of the name"
    ordering = ("position", "pk")
    fields = (
        "name",
        "account",
        "position",
        "conditions",
        "goes_to",
        "enabled",
        "enabled_by",
        "limits",
        "disabled_reason",
        "firm",
        "created_at",
    )
    goes_to = column("Goes to", _goes_to)
    conditions = column("Conditions", lambda rule: code_block(pretty_json(rule.match)))
    limits = column("Not used in", lambda rule: Limits().of_routing(rule) or "-")

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Leave out rules of mailboxes whose mail the user may not read."""
        rules: QuerySet[Any] = super().get_queryset(request)
        return rules.filter(Q(account=None) | readable(request.user.pk, "account__"))
