"""The base of the queue's resources."""

from __future__ import annotations

from http import HTTPStatus
from typing import cast

from django.contrib.auth.models import AbstractBaseUser
from rest_framework.response import Response

from jobs.api.errors import refusal_of
from jobs.errors import JobError
from jobs.lists import CursorInvalid
from tenants.api.problems import Fault, Refusal
from tenants.api.views import FirmView
from tenants.audit import Actor


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

    @property
    def actor(self) -> Actor:
        """The caller, as the audit log names them."""
        return Actor("api", cast("AbstractBaseUser", self.request.user))
