"""Agents' profiles in the admin."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from unfold.widgets import UnfoldAdminCheckboxSelectMultipleWidget

from interfaces.admin.base import code_block, column
from interfaces.admin.operations import (
    OperationForm,
    OptionalReasonForm,
    TextAnswer,
)
from jobs.admin.base import age_column
from mail.admin.base import MailAdmin
from mail.admin.filters import EnabledFilter
from mail.admin.operation import ChangeRow, DeleteRow, NewRow
from mail.models import AgentProfile, Preprocessor
from mail.models.agent import MAX_INSTRUCTIONS_LENGTH
from mail.models.routing_rule import MAX_PROFILE_LENGTH
from mail.services.agents import profiles
from mail.services.agents.tools import TOOLS
from tenants.admin.base import FirmFilter, TenantOperationsAdmin
from tenants.admin.firm_choice import SingleFirmForm
from tenants.models import Role

_TOOLS = [(tool.name, f"{tool.name}: {tool.description}") for tool in TOOLS.values()]


class ProfileForm(OperationForm):
    """A profile's settings."""

    from_row = profiles.SETTINGS
    name = forms.CharField(max_length=MAX_PROFILE_LENGTH, help_text="Routing rules use this name.")
    instructions = forms.CharField(
        max_length=MAX_INSTRUCTIONS_LENGTH,
        widget=forms.Textarea(attrs={"rows": 8}),
        help_text="What the agent is told before it reads a message.",
    )
    preprocessor = forms.ChoiceField(
        choices=Preprocessor.choices, label="Messages are read", initial=Preprocessor.PLAIN
    )
    tools = forms.MultipleChoiceField(
        choices=_TOOLS, required=False, widget=UnfoldAdminCheckboxSelectMultipleWidget
    )
    recipients = TextAnswer(
        required=False,
        help_text="One per line: an address, or *@ and a domain. The agent may ask to write to "
        "them, as to the sender of the message; a person approves or rejects each time.",
    )
    model = forms.CharField(
        required=False,
        max_length=profiles.MAX_MODEL_LENGTH,
        help_text="Empty: the model in LLM_MODEL.",
    )
    max_iterations = forms.IntegerField(
        initial=10,
        min_value=1,
        max_value=profiles.MAX_ITERATIONS,
        help_text="How often at most the model is asked about one message.",
    )
    max_tokens = forms.IntegerField(
        initial=4096,
        min_value=1,
        max_value=profiles.MAX_TOKENS,
        help_text="The most tokens in each reply.",
    )
    enabled = forms.BooleanField(required=False, initial=True)

    def prepare(self, request: HttpRequest, row: Any) -> None:
        """Start from the profile as it is."""
        super().prepare(request, row)
        if row is not None:
            self.initial["recipients"] = "\n".join(row.recipients)

    def clean_recipients(self) -> list[str]:
        """Return the addresses."""
        return str(self.cleaned_data["recipients"]).replace(",", " ").split()


class NewProfileForm(SingleFirmForm, ProfileForm):
    """The new profile's firm and settings."""

    role = Role.ADMIN
    field_order = ("firm", *ProfileForm.base_fields)


class ChangeProfileForm(OptionalReasonForm, ProfileForm):
    """A profile as it is and as it should be."""

    field_order = (*ProfileForm.base_fields, "reason")


@admin.register(AgentProfile)
class AgentProfileAdmin(TenantOperationsAdmin, MailAdmin):
    """What agents are told and may use."""

    empty_text = "Agents work by a profile: make one, and let a routing rule name it."
    list_operations = (
        NewRow(
            label="New profile",
            form=NewProfileForm,
            effect="Routing rules can hand messages to the profile by its name.",
            perform=lambda *, firm, **answers: profiles.create_profile(firm.pk, **answers),
            report=lambda profile: f"{profile.name} is stored.",
        ),
    )
    operations = (
        ChangeRow(
            variant="primary",
            form=ChangeProfileForm,
            effect="The change applies from the next message on.",
            perform=profiles.change_profile,
            report=lambda profile: f"{profile.name} is changed.",
        ),
        DeleteRow(
            effect="The profile is deleted. Its runs stay. Jobs that hand messages to it from "
            "then on become dead letters.",
            perform=profiles.delete_profile,
            report=lambda profile: f"{profile.name} is deleted.",
        ),
    )
    list_display = ("name", "may_use", "enabled", "firm", "changed")
    list_filter = (EnabledFilter, FirmFilter)
    search_fields = ("name__icontains",)
    search_help_text = "Part of the name"
    ordering = ("name", "pk")
    fields = (
        "name", "told", "preprocessor", "may_use", "may_write_to", "model", "max_iterations",
        "max_tokens", "enabled", "firm", "changed_at", "created_at",
    )  # fmt: skip
    told = column("Instructions", lambda profile: code_block(profile.instructions))
    may_use = column("Tools", lambda profile: ", ".join(map(str, profile.tools)) or "-")
    may_write_to = column(
        "Recipients", lambda profile: ", ".join(map(str, profile.recipients)) or "-"
    )
    changed = age_column("Changed", "changed_at")
