"""Directions and rules for the model in the admin."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin

from interfaces.admin.base import clipped, column
from interfaces.admin.operations import OptionalReasonForm, TextAnswer
from jobs.admin.base import age_column
from mail.admin.filters import EnabledFilter
from mail.admin.operation import ChangeRow, DeleteRow, NewRow
from mail.admin.scoped import NewScopedForm, ScopedAdmin, ScopeFields, checked_move, may_make
from mail.models import Direction, DirectionKind
from mail.services.rules import directions
from tenants.admin.base import FirmFilter
from tenants.models import Firm, Role

_FIELDS = ("text", "kind", "account_id", "scope", "scope_ref", "enabled")


class DirectionForm(ScopeFields):
    """A direction's settings."""

    from_row = _FIELDS
    text = TextAnswer(help_text="In your own words, as you would tell a person.")
    kind = forms.ChoiceField(
        choices=DirectionKind.choices,
        help_text="Directions take precedence over rules for the model.",
    )
    enabled = forms.BooleanField(required=False, initial=True)


class NewDirectionForm(NewScopedForm, DirectionForm):
    """The new direction's firm and settings."""

    field_order = ("firm", *_FIELDS)


class ChangeDirectionForm(DirectionForm, OptionalReasonForm):
    """A direction's settings as they are and as they should be."""

    field_order = (*_FIELDS, "reason")


def _create(*, firm: Firm, by: Any, **settings: Any) -> Direction:
    may_make(firm, settings["account_id"], by)
    return directions.create_direction(firm.pk, by=by, **settings)


@admin.register(Direction)
class DirectionAdmin(ScopedAdmin):
    """What people tell the model in their own words."""

    empty_text = "Nobody has told the model anything in their own words."
    list_operations = (
        NewRow(
            label="New direction",
            role=Role.VIEWER,
            form=NewDirectionForm,
            effect="The language model gets this text with every message in its scope.",
            perform=_create,
            report=lambda direction: f"“{direction}” is stored.",
        ),
    )
    operations = (
        ChangeRow(
            form=ChangeDirectionForm,
            effect="The change applies from the next message on.",
            perform=checked_move(directions.change_direction),
            report=lambda direction: f"“{direction}” is changed.",
        ),
        DeleteRow(
            effect="The direction is deleted. Decisions already made with it stay.",
            perform=directions.delete_direction,
            report=lambda direction: f"“{direction}” is deleted.",
        ),
    )
    list_display = ("said", "kind", "scope", "scope_ref", "enabled", "firm", "changed")
    list_select_related = ("firm", "account")
    list_filter = (EnabledFilter, FirmFilter)
    search_fields = ("text__icontains",)
    search_help_text = "Part of the text"
    ordering = ("-pk",)
    fields = (
        "text", "kind", "account", "scope", "scope_ref", "enabled", "enabled_by", "firm",
        "changed_at", "created_at",
    )  # fmt: skip
    said = column("Text", lambda direction: clipped(direction.text))
    changed = age_column("Changed", "changed_at")
