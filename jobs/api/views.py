"""The base of the queue's resources."""

from __future__ import annotations

from http import HTTPStatus
from typing import cast

from django.contrib.auth.models import AbstractBaseUser
from rest_framework.exceptions import PermissionDenied
from rest_framework.response import Response

from interfaces.api.problems import Fault, Refusal
from jobs.api.errors import refusal_of
from jobs.errors import JobError
from jobs.queries.lists import CursorInvalid
from tenants.api.views import FirmView
from tenants.audit import Actor
from tenants.models import Firm, Role


class QueueView(FirmView):
    """A resource of the queue: its verbs' errors are answers here."""

    def handle_exception(self, exc: Exception) -> Response:
        """Answer with the problem that an error is."""
        if isinstance(exc, JobError):
            exc = refusal_of(exc) or exc
        elif isinstance(exc, CursorInvalid):
            fault = Fault("cursor", "cursor_invalid", str(exc))
            exc = Refusal(HTTPStatus.BAD_REQUEST, "invalid", "The cursor is not valid.", [fault])
        return super().handle_exception(exc)

    def firm_named(self, slug: str | None, needed: Role) -> Firm:
        """Return the firm to act on: the one named, or the caller's only one.

        Raises:
            Refusal: none is named and there are several.
            NotFound: the one named is not in sight.
            PermissionDenied: it is, and the caller's role is too low.
        """
        if slug is not None:
            firm = self.get_firm(slug)
        elif (only := self.access.only_firm_id) is not None:
            firm = Firm.objects.get(pk=only)
        else:
            raise _refusal("firm", "required", "Name the firm.")
        self.check_role(needed, firm.pk)
        return firm

    def firm_or_every(self, slug: str | None, needed: Role, *, everywhere: bool) -> Firm | None:
        """Return the firm to act on, None for every firm.

        Raises:
            Refusal: none is named and there are several, or one is named beside every firm.
            NotFound: the one named is not in sight.
            PermissionDenied: the caller's role is too low.
        """
        if not everywhere:
            return self.firm_named(slug, needed)
        self.check_platform_staff()
        if slug is not None:
            raise _refusal("everywhere", "invalid", "Name a firm or say everywhere, not both.")
        return None

    def check_platform_staff(self) -> None:
        """Let pass who may act on every firm.

        Raises:
            PermissionDenied: the caller is not one of them.
        """
        if not self.access.is_platform_staff:
            raise PermissionDenied("What holds everywhere is for platform staff.")

    @property
    def actor(self) -> Actor:
        """The caller, as the audit log names them."""
        return Actor("api", cast("AbstractBaseUser", self.request.user))


def _refusal(field: str, code: str, message: str) -> Refusal:
    return Refusal(HTTPStatus.BAD_REQUEST, "invalid", message, [Fault(field, code, message)])
