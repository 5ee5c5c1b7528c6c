"""The choice of a firm: the firms in which the user may act; for platform staff every firm too."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django import forms
from django.http import HttpRequest

from interfaces.admin.operations import OperationForm
from tenants.admin.base import access_in
from tenants.models import Firm, Role


class FirmChoiceForm(OperationForm):
    """The base of forms about one firm; the cleaned `firm` is None for every firm."""

    # The role that the operation needs in the firm.
    role = Role.OPERATOR
    # Whether platform staff may choose every firm.
    offers_every_firm = True
    field_order: Sequence[str] = ("everywhere", "firm")

    def prepare(self, request: HttpRequest, row: Any) -> None:
        """Offer the user's firms; ask platform staff for a slug or for every firm."""
        super().prepare(request, row)
        access = self._access = access_in(request)
        self._firms = Firm.objects.filter(pk__in=access.firms(self.role) or [])
        self._asks_staff = access.is_platform_staff
        if self._asks_staff:
            # There may be thousands of firms: too many to choose from.
            if self.offers_every_firm:
                self.fields["everywhere"] = forms.BooleanField(required=False, label="Every firm")
            self.fields["firm"] = forms.CharField(
                required=False, max_length=50, label="Firm (slug)"
            )
        elif len(self._firms) > 1:
            self.fields["firm"] = forms.ModelChoiceField(queryset=self._firms)
        self.order_fields(list(self.field_order))

    def clean(self) -> dict[str, Any]:
        """Replace what was entered by the firm, or by None for every firm."""
        super().clean()
        answers = self.cleaned_data
        if self._asks_staff:
            answers["firm"] = self._firm_of_staff(answers)
        elif "firm" not in self.fields:
            answers["firm"] = self._firms.get()
        return answers

    def check_role(self, needed: Role, *, at: str) -> None:
        """Say at this field that what it has needs a role which the user lacks in the chosen firm."""
        firm = self.cleaned_data.get("firm")
        if firm is not None and not self._access.may(needed, firm.pk):
            self.add_error(at, f"{self.cleaned_data[at]} needs the role {needed}.")

    def _firm_of_staff(self, answers: dict[str, Any]) -> Firm | None:
        slug, everywhere = answers.get("firm", "").strip(), answers.pop("everywhere", False)
        if everywhere == bool(slug):
            other = ", or choose every firm" if self.offers_every_firm else ""
            self.add_error("firm", f"Name one firm{other}.")
            return None
        firm = Firm.objects.filter(slug=slug).first()
        if firm is None and not everywhere:
            self.add_error("firm", "There is no firm with this slug.")
        return firm


class SingleFirmForm(FirmChoiceForm):
    """The base of forms about exactly one firm."""

    offers_every_firm = False
