"""Rules in the admin: written and shown as lines, tried on past mail, enabled, applied."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from django.contrib import admin, messages
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from interfaces.admin.base import column
from interfaces.admin.operations import Operation, OperationRefused, OptionalReasonForm
from jobs.admin.base import age_column
from mail.admin.base import MailAdmin, message_link
from mail.admin.filters import EnabledFilter
from mail.admin.rule_form import ChangeRuleForm, DaysForm, NewRuleForm, words_of
from mail.errors import FaultyInput, MailError
from mail.models import MailAccount, Rule
from mail.rules.wording import actions_in_words
from mail.services import rule_operations
from mail.services.content_access import readable
from mail.services.rule_operations import Trial
from tenants.access import access_of
from tenants.admin.base import TenantOperationsAdmin, access_in
from tenants.admin.filters import FirmFilter
from tenants.models import Firm, Role
from tenants.scope import firm_scope

MATCHES_SHOWN = 20


@dataclass(frozen=True, kw_only=True)
class RuleOperation(Operation):
    """An operation of `mail.services.rule_operations`."""

    role: str = Role.ADMIN

    def run(self, row: Any, answers: Any, by: Any) -> Any:
        """Perform it.

        Raises:
            OperationRefused: the service refuses it; it names the form's field at fault.
        """
        try:
            return super().run(row, answers, by)
        except FaultyInput as error:
            fields = {fault["field"].partition(".")[0] for fault in error.errors}
            field = fields.pop() if len(fields) == 1 else None
            lines = [f"{fault['field']} {fault['message']}" for fault in error.errors]
            raise OperationRefused(*lines, field=field, status=HTTPStatus.BAD_REQUEST) from error
        except MailError as error:
            raise OperationRefused(str(error)) from error


def _create(*, firm: Firm, by: Any, **settings: Any) -> Rule:
    own = settings["account_id"] and MailAccount.objects.filter(
        pk=settings["account_id"], firm=firm, owner_id=by.user_id
    )
    if not (own and own.exists()):
        _require_admin(by, firm)
    return rule_operations.create_rule(firm.pk, by=by, **settings)


def _require_admin(by: Any, firm: Firm) -> None:
    if not access_of(by.user).may(Role.ADMIN, firm.pk):
        message = "Only the owner of the mailbox, or an admin of the firm, makes such a rule."
        raise OperationRefused(message, field="account_id", status=HTTPStatus.FORBIDDEN)


def _try(rule: Rule, *, by: Any, reason: str) -> Trial:
    return rule_operations.try_rule(rule, user_id=by.user_id, by=by, reason=reason)


def _tried(rule: Rule) -> str:
    return f"{rule.name} was tried: below is the newest mail that it would have matched."


NEW = RuleOperation(
    name="new",
    label="New rule",
    icon="add",
    variant="primary",
    role=Role.VIEWER,
    form=NewRuleForm,
    effect="It is stored, and does nothing before it was tried and enabled.",
    perform=_create,
    report=lambda rule: f"{rule.name} is stored. Try it, then enable it.",
)
OPERATIONS = (
    RuleOperation(
        name="try",
        label="Try",
        icon="science",
        variant="primary",
        form=OptionalReasonForm,
        effect="Its conditions are asked of the newest mail that you may read. No mail is changed.",
        seen=lambda rule: str(rule.changed_at),
        perform=_try,
        report=_tried,
    ),
    RuleOperation(
        name="enable",
        label="Enable",
        icon="play_arrow",
        variant="primary",
        form=OptionalReasonForm,
        effect="It decides about mail that comes from now on.",
        obstacle=lambda rule: (
            "The rule is enabled."
            if rule.enabled
            else ""
            if rule.tried_at
            else "Try the rule first: it was not tried since it was made or changed."
        ),
        seen=lambda rule: str(rule.changed_at),
        perform=rule_operations.enable_rule,
        report=lambda rule: f"{rule.name} is enabled.",
    ),
    RuleOperation(
        name="disable",
        label="Disable",
        icon="pause",
        form=OptionalReasonForm,
        effect="It decides nothing more. What it did stays.",
        obstacle=lambda rule: "" if rule.enabled else "The rule is not enabled.",
        perform=rule_operations.switch_off_rule,
        report=lambda rule: f"{rule.name} is disabled.",
    ),
    RuleOperation(
        name="apply",
        label="Apply to old mail",
        icon="history",
        form=DaysForm,
        effect="Its actions are done on stored mail, by a job for each mailbox.",
        obstacle=lambda rule: (
            ""
            if rule.enabled and rule.actions
            else "Only an enabled rule with actions can be applied to old mail."
        ),
        perform=rule_operations.apply_to_old_mail,
        report=lambda rule: f"{rule.name} is being applied to old mail.",
    ),
    RuleOperation(
        name="edit",
        label="Change",
        icon="edit",
        form=ChangeRuleForm,
        effect="Where that changes what it does, it is disabled until it was tried again.",
        seen=lambda rule: str(rule.changed_at),
        perform=rule_operations.change_rule,
        report=lambda rule: f"{rule.name} is changed.",
    ),
    RuleOperation(
        name="remove",
        label="Delete",
        icon="delete",
        variant="danger",
        form=OptionalReasonForm,
        effect="The rule goes. What it decided and did stays.",
        seen=lambda rule: str(rule.changed_at),
        perform=rule_operations.delete_rule,
        report=lambda rule: f"{rule.name} is deleted.",
    ),
)


def _state(rule: Rule) -> str:
    if rule.enabled:
        return "enabled"
    return "switched off" if rule.disabled_reason else "disabled"


def _lines(lines: list[str]) -> SafeString:
    return format_html('<pre class="queue-code">{}</pre>', "\n".join(lines) or "-")


@admin.register(Rule)
class RuleAdmin(TenantOperationsAdmin, MailAdmin):
    """Rules that decide about mail before the classifier."""

    list_operations = (NEW,)
    operations = OPERATIONS
    returns_to_list = False
    list_display = ("name", "state", "holds_for", "follows", "priority", "firm", "changed")
    list_select_related = ("firm", "account")
    list_filter = (EnabledFilter, FirmFilter)
    search_fields = ("name__icontains",)
    ordering = ("priority", "pk")
    fields = (
        "name",
        "holds_for",
        "when",
        "follows",
        "priority",
        "enabled",
        "disabled_reason",
        "safe_mode",
        "tried_at",
        "would_match",
        "firm",
        "changed_at",
        "created_at",
    )
    readonly_fields = ("holds_for", "when", "follows", "would_match")
    changed = age_column("Changed", "changed_at")
    state = column(
        "State",
        _state,
        label={"enabled": "success", "disabled": "default", "switched off": "danger"},
    )
    when = column("Conditions", lambda rule: _lines(words_of(rule)))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Leave out rules of mailboxes whose mail the user may not read."""
        rules: QuerySet[Any] = super().get_queryset(request)
        return rules.filter(Q(account=None) | readable(request.user.pk, "account__"))

    def may(self, request: HttpRequest, operation: Operation, row: Any = None) -> bool:
        """Allow the owner of the rule's mailbox besides who has the role."""
        owner = None if row is None or row.account is None else row.account.owner_id
        if owner is not None and owner == request.user.pk:
            return access_in(request).may(Role.VIEWER, row.firm_id)
        return super().may(request, operation, row)

    def respond(
        self, request: HttpRequest, operation: Operation, row: Any, made: Any
    ) -> HttpResponse:
        """Return to the list from a rule that is gone."""
        if operation.name != "remove":
            return super().respond(request, operation, row, made)
        messages.success(request, operation.report(row))
        return HttpResponseRedirect(self.address("changelist"))

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Keep who asks, for the matches."""
        row.asked_by = request.user.pk
        return super().page_context(request, row)

    def holds_for(self, rule: Rule) -> str:
        """Return whose mail it is about."""
        where = f" in {rule.account.address}" if rule.account is not None else ""
        return (rule.scope_ref or rule.get_scope_display()) + where

    holds_for.short_description = "Holds for"  # type: ignore[attr-defined]

    def follows(self, rule: Rule) -> SafeString:
        """Return the category and the actions."""
        category = [str(rule.get_category_display())] if rule.category else []
        lines = [*category, *actions_in_words(rule.actions)]
        return format_html_join("", "<div>{}</div>", [(line,) for line in lines])

    follows.short_description = "Then"  # type: ignore[attr-defined]

    def would_match(self, rule: Rule) -> SafeString | str:
        """Return the newest mail that it matches, among what the user may read."""
        try:
            with firm_scope(rule.firm_id):
                trial = rule_operations.matches_of(rule, getattr(rule, "asked_by", None))
        except FaultyInput:
            return "-"
        found = trial.matched[:MATCHES_SHOWN]
        rows = [(message_link(one, is_readable=True),) for one in found]
        listed = format_html_join("", "<div>{}</div>", rows)
        return format_html("{} of the newest {}{}", len(trial.matched), trial.looked_at, listed)

    would_match.short_description = "Matches now"  # type: ignore[attr-defined]
