"""What the lists can do to many rows, the forms that ask for it, and what their page sends, which may be anything."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django import forms
from django.contrib.admin.views.main import PAGE_VAR
from django.http import QueryDict
from django.utils.dateparse import parse_datetime

from interfaces.admin.operations import OperationForm, OptionalReasonForm, Variant
from interfaces.moments import is_in_range
from jobs.operations.bulk import MOST_CANARIES, MOST_PER_SECOND
from jobs.states import PRIORITY_CHOICES, BulkOperation


class BulkPriorityForm(OptionalReasonForm):
    """The priority to set."""

    priority = forms.TypedChoiceField(coerce=int, choices=PRIORITY_CHOICES)
    field_order = ("priority", "reason")


class RestartForm(OptionalReasonForm):
    """How fast jobs go back to the queue, and whether some go first."""

    canary_size = forms.IntegerField(
        required=False,
        min_value=1,
        max_value=MOST_CANARIES,
        label="Canary",
        help_text=(
            "Try this many rows first, as a canary; it must be fewer than all. If more than a "
            "fifth of them fail again, the run stops."
        ),
    )
    rate_per_second = forms.FloatField(
        required=False,
        min_value=0.001,
        max_value=MOST_PER_SECOND,
        label="Rows per second, at most",
        help_text="Leave empty for no limit.",
    )
    field_order = ("canary_size", "rate_per_second", "reason")


@dataclass(frozen=True, kw_only=True)
class BulkAction:
    """A bulk operation of a list."""

    operation: BulkOperation
    label: str
    icon: str
    variant: Variant = "default"
    effect: str
    form: type[OperationForm] = OptionalReasonForm
    role: str = "operator"

    @property
    def name(self) -> str:
        """The last part of its address."""
        return self.operation.value


def list_parameters(listing: str) -> QueryDict:
    """Return the parameters of the list without its page number."""
    parameters = QueryDict(listing, mutable=True)
    parameters.pop(PAGE_VAR, None)
    return parameters


def read_ids(text: str) -> list[UUID]:
    """Return the ids in a space-separated list, each once; words that are no id are left out."""
    found: dict[UUID, None] = {}
    for word in text.split():
        try:
            found[UUID(word)] = None
        except ValueError:
            continue
    return list(found)


def read_moment(text: str) -> datetime | None:
    """Return the time that the page sent; None if the page cannot have written it."""
    try:
        moment = parse_datetime(text)
    except ValueError:
        return None
    written = moment is not None and moment.tzinfo is not None and is_in_range(moment)
    return moment if written else None
