"""How a firm answers, in the admin: settings, styles, templates and contacts."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.contrib import admin
from django.http import HttpRequest

from interfaces.admin.base import clipped, column
from interfaces.admin.operations import Operation, OperationForm, OptionalReasonForm
from jobs.admin.base import age_column
from jobs.admin.schema_fields import JSONAnswer
from mail.admin.base import json_block
from mail.admin.filters import EnabledFilter
from mail.admin.operation import ChangeRow, DeleteRow, NewRow
from mail.admin.scoped import MailboxChoice, NewScopedForm, ScopedAdmin, checked_move, may_make
from mail.models import Contact, ReplySettings, ReplyStyle, ReplyTemplate
from mail.models.account import MAX_ADDRESS_LENGTH
from mail.models.reply_settings import (
    MAX_LANGUAGE_LENGTH,
    MAX_SIGN_OFF_LENGTH,
    MAX_STYLE_LENGTH,
    MAX_TEMPLATE_LENGTH,
    MAX_TEMPLATE_NAME_LENGTH,
    ReplyRow,
)
from mail.services.drafting.reply_rows import (
    SETTINGS,
    change_reply_row,
    create_reply_row,
    delete_reply_row,
)
from tenants.admin.base import FirmFilter
from tenants.models import Firm, Role


class _ReplyFields(OperationForm):
    """The mailbox for which a row applies."""

    account_id = MailboxChoice(required=False, empty_label="Every mailbox of the firm")
    model: ClassVar[type[ReplyRow]]

    def prepare(self, request: HttpRequest, row: Any) -> None:
        """Set the current values, and offer mailboxes whose mail the user may read."""
        super().prepare(request, row)
        if row is not None:
            self.initial = {name: getattr(row, name) for name in SETTINGS[self.model]}
            self.initial["account_id"] = row.account_id
        self.fields["account_id"].offer(request, row)  # type: ignore[attr-defined]


class SettingsForm(_ReplyFields):
    """Whether and how drafts are made."""

    model = ReplySettings
    enabled = forms.BooleanField(required=False, initial=True, label="Draft answers")
    gather_context = forms.BooleanField(
        required=False, initial=True, label="Show the model earlier mail with the same person"
    )
    default_style = forms.CharField(max_length=MAX_STYLE_LENGTH, initial="business")
    default_language = forms.CharField(
        max_length=MAX_LANGUAGE_LENGTH,
        initial="en",
        help_text="Used where the language of the message cannot be told: a code such as en.",
    )
    sign_off_name = forms.CharField(
        required=False, max_length=200, help_text="Empty: the mailbox's name."
    )


class StyleForm(_ReplyFields):
    """A tone in which to answer."""

    model = ReplyStyle
    name = forms.CharField(
        max_length=MAX_STYLE_LENGTH,
        help_text="formal, business and informal are built in; one of your own replaces them.",
    )
    rules = forms.CharField(
        required=False, widget=forms.Textarea(attrs={"rows": 5}), help_text="One per line."
    )
    sign_off = forms.CharField(
        required=False,
        max_length=MAX_SIGN_OFF_LENGTH,
        help_text="Empty: the usual sign-off in the language.",
    )
    language = forms.CharField(
        max_length=MAX_LANGUAGE_LENGTH,
        initial="auto",
        help_text="A code such as en, or auto for the language of the message.",
    )
    examples = JSONAnswer(
        required=False,
        initial=list,
        help_text='[{"context": "…", "input": "…", "draft": "…"}]',
    )

    def prepare(self, request: HttpRequest, row: Any) -> None:
        """Show the rules, one a line."""
        super().prepare(request, row)
        if row is not None:
            self.initial["rules"] = "\n".join(row.rules)
            self.initial["examples"] = row.examples

    def clean_rules(self) -> list[str]:
        """Return the rules."""
        lines = str(self.cleaned_data["rules"]).splitlines()
        return [line.strip() for line in lines if line.strip()]

    def clean_examples(self) -> Any:
        """Return the examples."""
        return self.cleaned_data["examples"] or []


class TemplateForm(_ReplyFields):
    """A text that answers where no model is asked."""

    model = ReplyTemplate
    name = forms.CharField(max_length=MAX_TEMPLATE_NAME_LENGTH)
    style = forms.CharField(required=False, max_length=MAX_STYLE_LENGTH, help_text="Empty: any.")
    language = forms.CharField(
        required=False, max_length=MAX_LANGUAGE_LENGTH, help_text="Empty: any."
    )
    text = forms.CharField(
        max_length=MAX_TEMPLATE_LENGTH,
        widget=forms.Textarea(attrs={"rows": 8}),
        help_text="May use {name}, {subject}, {sign_off} and {owner}.",
    )
    enabled = forms.BooleanField(required=False, initial=True)


class ContactForm(_ReplyFields):
    """Settings that differ for one sender, or for a whole domain."""

    model = Contact
    pattern = forms.CharField(
        max_length=MAX_ADDRESS_LENGTH,
        label="Address or domain",
        help_text="* stands for anything: *@shop.example, *.shop.example.",
    )
    style = forms.CharField(
        required=False, max_length=MAX_STYLE_LENGTH, help_text="Empty: as ever."
    )
    language = forms.CharField(
        required=False, max_length=MAX_LANGUAGE_LENGTH, help_text="Empty: as ever."
    )
    blocked = forms.BooleanField(
        required=False, label="On the blacklist: its mail is for information only"
    )


def _operations(form: type[_ReplyFields], what: str, effect: str) -> dict[str, Any]:
    """Return the operations on one kind of row, by the names of the admin's attributes."""
    model = form.model
    names = ("account_id", *SETTINGS[model])

    def create(*, firm: Firm, by: Any, **settings: Any) -> ReplyRow:
        may_make(firm, settings["account_id"], by)
        return create_reply_row(model, firm.pk, by=by, **settings)

    new_form = type(f"New{form.__name__}", (NewScopedForm, form), {"field_order": ("firm", *names)})
    change_form = type(
        f"Change{form.__name__}", (OptionalReasonForm, form), {"field_order": (*names, "reason")}
    )
    new = NewRow(
        label=f"New {what}",
        role=Role.VIEWER,
        form=new_form,
        effect=effect,
        perform=create,
        report=lambda row: f"“{row}” is stored.",
    )
    edit = ChangeRow(
        form=change_form,
        effect=effect,
        perform=checked_move(change_reply_row),
        report=lambda row: f"“{row}” is changed.",
    )
    remove = DeleteRow(
        effect="Drafts that were already made with it stay.",
        perform=delete_reply_row,
        report=lambda row: f"“{row}” is deleted.",
    )
    return {"list_operations": (new,), "operations": (edit, remove)}


class ReplyAdmin(ScopedAdmin):
    """The base of the four admins below."""

    list_operations: tuple[Operation, ...]
    list_select_related = ("firm", "account")
    list_filter: tuple[Any, ...] = (FirmFilter,)
    ordering = ("-pk",)
    changed = age_column("Changed", "changed_at")


@admin.register(ReplySettings)
class ReplySettingsAdmin(ReplyAdmin):
    """Whether and how drafts are made, for the firm and for single mailboxes."""

    empty_text = "Answers are drafted in the style “business”, in the language of the message."
    vars().update(
        _operations(SettingsForm, "settings", "The settings apply from the next draft on.")
    )
    list_display = ("__str__", "account", "default_style", "default_language", "firm", "changed")
    list_filter = (EnabledFilter, FirmFilter)
    fields = (
        "enabled", "gather_context", "default_style", "default_language", "sign_off_name", "account",
        "firm", "changed_at", "created_at",
    )  # fmt: skip


@admin.register(ReplyStyle)
class ReplyStyleAdmin(ReplyAdmin):
    """The tones in which to answer."""

    empty_text = "The styles “formal”, “business” and “informal” are built in."
    vars().update(
        _operations(StyleForm, "style", "The style applies from the next draft in it on.")
    )
    list_display = ("name", "language", "account", "firm", "changed")
    search_fields = ("name__icontains",)
    search_help_text = "Part of the name"
    fields = (
        "name", "told", "sign_off", "language", "shown", "account", "firm", "changed_at",
        "created_at",
    )  # fmt: skip
    told = column("Rules", lambda style: json_block(style.rules))
    shown = column("Examples", lambda style: json_block(style.examples))


@admin.register(ReplyTemplate)
class ReplyTemplateAdmin(ReplyAdmin):
    """The texts that answer where no model is asked."""

    empty_text = "Answers are written by the model, or from a built-in text if there is none."
    vars().update(
        _operations(
            TemplateForm,
            "template",
            "The template answers where it fits best and no model is asked.",
        )
    )
    list_display = ("name", "says", "style", "language", "enabled", "account", "firm", "changed")
    list_filter = (EnabledFilter, FirmFilter)
    search_fields = ("name__icontains",)
    search_help_text = "Part of the name"
    fields = (
        "name", "text", "style", "language", "enabled", "account", "firm", "changed_at",
        "created_at",
    )  # fmt: skip
    says = column("Text", lambda template: clipped(template.text))


@admin.register(Contact)
class ContactAdmin(ReplyAdmin):
    """Settings that differ for one sender, or for a whole domain."""

    empty_text = "Every sender is answered as the reply settings say."
    vars().update(
        _operations(
            ContactForm,
            "contact",
            "What is set here applies from the next message and the next draft on.",
        )
    )
    list_display = ("pattern", "style", "language", "blocked", "account", "firm", "changed")
    search_fields = ("pattern__icontains",)
    search_help_text = "Part of the address or domain"
    fields = (
        "pattern", "style", "language", "blocked", "account", "firm", "changed_at", "created_at",
    )  # fmt: skip
