"""The base of mail's resources: turns the mail app's errors into problem details."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from rest_framework import serializers
from rest_framework.response import Response

from interfaces.api.problems import Fault, Refusal
from jobs.api.views import QueueView
from mail.errors import FaultyInput, MailError


class FirmRowSerializer(serializers.Serializer[Any]):
    """A row of a firm."""

    id = serializers.UUIDField()
    firm = serializers.CharField(source="firm.slug", help_text="The firm's slug.")


class MailView(QueueView):
    """A resource of the mail app."""

    def handle_exception(self, exc: Exception) -> Response:
        """Turn the mail app's errors into problem details."""
        if isinstance(exc, FaultyInput):
            faults = [Fault(**fault) for fault in exc.errors]
            exc = Refusal(HTTPStatus.BAD_REQUEST, exc.code, str(exc), faults)
        elif isinstance(exc, MailError):
            exc = Refusal(HTTPStatus.CONFLICT, "wrong_state", str(exc))
        return super().handle_exception(exc)
