"""Rules in the admin: written and shown as lines, tried, enabled, applied to old mail."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from interfaces.admin.base import code_block, column
from interfaces.admin.operations import OptionalReasonForm
from jobs.admin.base import age_column
from mail.admin.base import message_link
from mail.admin.filters import EnabledFilter, ProposedFilter
from mail.admin.operation import ChangeRow, DeleteRow, MailOperation, NewRow
from mail.admin.rule_form import ChangeRuleForm, DaysForm, NewRuleForm, words_of
from mail.admin.scoped import ScopedAdmin, checked_move, may_make
from mail.errors import FaultyInput
from mail.models import Rule
from mail.rules.wording import actions_in_words
from mail.services.rules import operations as rule_operations
from mail.services.rules.operations import Trial
from mail.services.rules.reach import Limits
from tenants.admin.base import FirmFilter
from tenants.models import Firm, Role
from tenants.scope import firm_scope

MATCHES_SHOWN = 20


def _create(*, firm: Firm, by: Any, **settings: Any) -> Rule:
    may_make(firm, settings["account_id"], by)
    return rule_operations.create_rule(firm.pk, by=by, **settings)


def _try(rule: Rule, *, by: Any, reason: str) -> Trial:
    return rule_operations.try_rule(rule, user_id=by.user_id, by=by, reason=reason)


NEW = NewRow(
    label="New rule",
    role=Role.VIEWER,
    form=NewRuleForm,
    effect="The rule is stored. It does nothing until it has been tried and enabled.",
    perform=_create,
    report=lambda rule: f"{rule.name} is stored. Try it, then enable it.",
)
OPERATIONS = (
    MailOperation(
        name="try",
        label="Try",
        icon="science",
        variant="primary",
        form=OptionalReasonForm,
        effect="The rule's conditions are checked against the newest mail that you may read. No "
        "mail is changed.",
        seen=lambda rule: str(rule.changed_at),
        perform=_try,
        report=lambda rule: (
            f"{rule.name} was tried: below is the newest mail that it would have matched."
        ),
    ),
    MailOperation(
        name="enable",
        label="Enable",
        icon="play_arrow",
        variant="primary",
        form=OptionalReasonForm,
        effect="The rule applies to mail that arrives from now on. In a private mailbox whose "
        "mail you may not read, it checks senders and recipients only, and dangerous "
        "actions wait for approval.",
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
    MailOperation(
        name="disable",
        label="Disable",
        icon="pause",
        form=OptionalReasonForm,
        effect="The rule no longer applies to new mail. What it has already done stays.",
        obstacle=lambda rule: "" if rule.enabled else "The rule is not enabled.",
        perform=rule_operations.switch_off_rule,
        report=lambda rule: f"{rule.name} is disabled.",
    ),
    MailOperation(
        name="apply",
        label="Apply to old mail",
        icon="history",
        form=DaysForm,
        effect="The rule's actions are done on stored mail, by a job for each mailbox.",
        obstacle=lambda rule: (
            ""
            if rule.enabled and rule.actions
            else "Only an enabled rule with actions can be applied to old mail."
        ),
        perform=rule_operations.apply_to_old_mail,
        report=lambda rule: f"{rule.name} is being applied to old mail.",
    ),
    ChangeRow(
        form=ChangeRuleForm,
        effect="If that changes what the rule does, the rule is disabled and has to be tried "
        "again.",
        perform=checked_move(rule_operations.change_rule),
        report=lambda rule: f"{rule.name} is changed.",
    ),
    DeleteRow(
        effect="The rule is deleted. What it has already decided and done stays.",
        perform=rule_operations.delete_rule,
        report=lambda rule: f"{rule.name} is deleted.",
    ),
)


def _state(rule: Rule) -> str:
    if rule.enabled:
        return "enabled"
    if rule.corrections:
        return "proposed"
    return "switched off" if rule.disabled_reason else "disabled"


def _because(rule: Rule) -> str:
    if not rule.corrections:
        return "-"
    times = "once" if rule.corrections == 1 else f"{rule.corrections} times"
    return f"Mail of this sender was reclassified {times}. Try it, then enable it, or delete it."


@admin.register(Rule)
class RuleAdmin(ScopedAdmin):
    """Rules, which decide about mail before the classifier does."""

    empty_text = "No rules: the classifier alone judges mail."
    list_operations = (NEW,)
    operations = OPERATIONS
    list_display = ("name", "state", "holds_for", "follows", "priority", "firm", "changed")
    list_select_related = ("firm", "account", "enabled_by")
    list_filter = (EnabledFilter, ProposedFilter, FirmFilter)
    search_fields = ("name__icontains",)
    search_help_text = "Part of the name"
    ordering = ("priority", "pk")
    fields = (
        "name",
        "holds_for",
        "when",
        "follows",
        "priority",
        "enabled",
        "enabled_by",
        "limits",
        "because",
        "disabled_reason",
        "safe_mode",
        "tried_at",
        "would_match",
        "firm",
        "changed_at",
        "created_at",
    )
    changed = age_column("Changed", "changed_at")
    state = column(
        "State",
        _state,
        label={
            "enabled": "success",
            "proposed": "info",
            "disabled": "default",
            "switched off": "danger",
        },
    )
    because = column("Proposed because", _because)
    when = column("Conditions", lambda rule: code_block("\n".join(words_of(rule)) or "-"))

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Store the user on the row, because `would_match` and `limits` need it."""
        row.asked_by = request.user
        return super().page_context(request, row)

    def limits(self, rule: Rule) -> str:
        """Return where the rule does less, as enabled now, or if this user enables it."""
        return Limits().of(rule, getattr(rule, "asked_by", None)) or "-"

    limits.short_description = "Does less in"  # type: ignore[attr-defined]

    def holds_for(self, rule: Rule) -> str:
        """Return the rule's scope in words."""
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
        """Return the newest messages that the rule matches, among those the user may read."""
        try:
            with firm_scope(rule.firm_id):
                asked_by = getattr(rule, "asked_by", None)
                trial = rule_operations.matches_of(rule, asked_by and asked_by.pk)
        except FaultyInput:
            return "-"
        found = trial.matched[:MATCHES_SHOWN]
        rows = [(message_link(one, is_readable=True),) for one in found]
        listed = format_html_join("", "<div>{}</div>", rows)
        return format_html("{} of the newest {}{}", len(trial.matched), trial.looked_at, listed)

    would_match.short_description = "Matches now"  # type: ignore[attr-defined]
