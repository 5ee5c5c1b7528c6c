"""What the lists can do to many rows, and the forms that ask for it."""

from __future__ import annotations

from dataclasses import dataclass

from django import forms

from interfaces.admin.operations import OperationForm, TextAnswer, Variant
from jobs.operations.bulk import MOST_CANARIES, MOST_PER_SECOND
from jobs.states import PRIORITY_CHOICES, BulkOperation


class BulkForm(OperationForm):
    """An optional reason."""

    reason = TextAnswer(required=False, help_text="Kept in the audit log.")


class BulkReasonForm(BulkForm):
    """A reason that must be given."""

    reason = TextAnswer(help_text="Kept in the audit log.")


class BulkPriorityForm(BulkForm):
    """The priority to set."""

    priority = forms.TypedChoiceField(coerce=int, choices=PRIORITY_CHOICES)
    field_order = ("priority", "reason")


class RestartForm(BulkForm):
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
    form: type[BulkForm] = BulkForm
    role: str = "operator"

    @property
    def name(self) -> str:
        """The last part of its address."""
        return self.operation.value
