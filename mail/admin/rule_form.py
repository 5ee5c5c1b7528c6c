"""The form of a rule: its conditions and actions are written as lines."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any
from uuid import UUID

from django import forms
from django.http import HttpRequest
from unfold.widgets import UnfoldAdminTextareaWidget

from interfaces.admin.operations import OptionalReasonForm
from mail.admin.scoped import NewScopedForm, ScopeFields
from mail.errors import FaultyInput
from mail.models import CATEGORY_CHOICES, Message, Rule, SafeMode, Scope
from mail.rules.conditions import parse_conditions
from mail.rules.wording import actions_in_words, in_words, read_actions, read_words
from mail.services.mailboxes.content_access import readable
from mail.services.rules.labels import named_conditions
from mail.services.rules.settings import MAX_NAME_LENGTH, MAX_PRIORITY
from tenants.scope import firm_scope

_FIELDS = (
    "name", "account_id", "scope", "scope_ref", "conditions", "category", "actions", "priority",
    "safe_mode",
)  # fmt: skip
EXAMPLE = "any of:\n  domain: billing.example\n  subject contains: invoice"


class LinesField(forms.CharField):
    """A text area for lines of code."""

    def __init__(self, rows: int, placeholder: str, **options: Any) -> None:
        attrs = {
            "rows": rows,
            "spellcheck": "false",
            "class": "queue-code queue-editor",
            "placeholder": placeholder,
        }
        super().__init__(strip=False, widget=UnfoldAdminTextareaWidget(attrs=attrs), **options)


class RuleForm(ScopeFields):
    """A rule's settings."""

    name = forms.CharField(max_length=MAX_NAME_LENGTH)
    conditions = LinesField(
        8,
        EXAMPLE,
        help_text="One a line: from: ADDRESS or *@DOMAIN, domain:, subject contains:, subject "
        "matches: (a pattern), header NAME matches:, label:. “not” before a line reverses it; "
        "“all of:” and “any of:” hold what is indented below them.",
    )
    category = forms.ChoiceField(
        required=False, choices=[("", "The classifier decides"), *CATEGORY_CHOICES]
    )
    actions = LinesField(
        3,
        "archive\napply_label: Clients",
        required=False,
        help_text="One a line: archive, star, mark_read, apply_label: NAME … Other parameters are "
        'JSON: snooze {"amount": 3, "units": "days"}, forward {"to": ["ann@example.org"]}.',
    )
    priority = forms.IntegerField(
        initial=100,
        min_value=0,
        max_value=MAX_PRIORITY,
        help_text="Lower numbers are checked first.",
    )
    safe_mode = forms.ChoiceField(
        choices=SafeMode.choices,
        label="Checks that are skipped",
        help_text="Dangerous actions wait for approval, unless the danger check is skipped.",
    )

    def prepare(self, request: HttpRequest, row: Any) -> None:
        """Set the current values."""
        super().prepare(request, row)
        if row is not None:
            self.initial = shown(row)

    def clean(self) -> dict[str, Any]:
        """Parse the lines of conditions and actions."""
        answers = self.cleaned_data
        readers: dict[str, Callable[[str], Any]] = {
            "conditions": read_words,
            "actions": read_actions,
        }
        for name, read in readers.items():
            try:
                answers[name] = read(answers.get(name) or "")
            except FaultyInput as error:
                self.add_error(name, [one["message"] for one in error.errors])
        return answers


class NewRuleForm(NewScopedForm, RuleForm):
    """The new rule's firm and settings."""

    field_order = ("firm", *_FIELDS)

    def prepare(self, request: HttpRequest, row: Any) -> None:
        """Start from the message that the URL names, if the user may read it."""
        super().prepare(request, row)
        with suppress(ValueError):
            rows = Message.objects.filter(readable(request.user.pk, "account__"))
            message = rows.filter(pk=UUID(request.GET.get("message", ""))).first()
            if message is not None:
                firm = message.firm.slug if self._asks_staff else message.firm_id
                self.initial = {"firm": firm, **about_such_mail(message)}


class ChangeRuleForm(RuleForm, OptionalReasonForm):
    """A rule's settings, and the reason of the change."""

    field_order = (*_FIELDS, "reason")


class DaysForm(OptionalReasonForm):
    """To how many days of old mail a rule is applied."""

    days = forms.IntegerField(
        min_value=1, max_value=3650, initial=30, label="Mail of the last days"
    )
    field_order = ("days", "reason")


def about_such_mail(message: Message) -> dict[str, Any]:
    """Return the form's values for a rule about such mail: by its list, else by its sender."""
    headers = {name.lower(): value for name, value in message.headers}
    sender = message.sender_address.lower()
    found = re.search(r"<([\w.-]+)>", headers.get("list-id", ""))
    if found:
        name, condition = found[1], f"header List-Id matches: {re.escape(found[1])}"
    else:
        name, condition = sender, f"from: {sender}"
    return {
        "account_id": message.account_id,
        "scope": Scope.ACCOUNT,
        "name": f"Mail from {name}"[:MAX_NAME_LENGTH],
        "conditions": condition if sender or found else "",
    }


def shown(rule: Rule) -> dict[str, Any]:
    """Return the rule's settings as the form shows them."""
    return {
        "name": rule.name,
        "account_id": rule.account_id,
        "scope": rule.scope,
        "scope_ref": rule.scope_ref,
        "conditions": "\n".join(words_of(rule)),
        "category": rule.category,
        "actions": "\n".join(actions_in_words(rule.actions)),
        "priority": rule.priority,
        "safe_mode": rule.safe_mode,
    }


def words_of(rule: Rule) -> list[str]:
    """Return the rule's conditions as lines, with the names of labels."""
    try:
        with firm_scope(rule.firm_id):
            return in_words(parse_conditions(named_conditions(rule.conditions, rule.account_id)))
    except FaultyInput as error:
        return [str(error)]
