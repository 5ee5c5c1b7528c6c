"""Operations of mail's services in the admin."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from django.utils.text import capfirst

from interfaces.admin.operations import Operation, OperationRefused
from mail.errors import FaultyInput, MailError
from tenants.models import Role


@dataclass(frozen=True, kw_only=True)
class MailOperation(Operation):
    """An operation that a service of mail performs; the service's errors are shown in its form."""

    role: str = Role.ADMIN

    def run(self, row: Any, answers: Any, by: Any) -> Any:
        """Call the service.

        Raises:
            OperationRefused: the service refuses it; each fault is shown at its field.
        """
        try:
            return super().run(row, answers, by)
        except FaultyInput as error:
            by_field: dict[str | None, list[str]] = {}
            for fault in error.errors:
                field, _, part = fault["field"].partition(".")
                by_field.setdefault(field, []).append(_sentence(part, fault["message"]))
            raise OperationRefused(by_field=by_field, status=HTTPStatus.BAD_REQUEST) from error
        except MailError as error:
            raise OperationRefused(str(error)) from error


def _sentence(part: str, message: str) -> str:
    """Return a fault as a sentence for its field; `part` names the faulty part of a JSON value."""
    said = f"{part}: {message}" if part else capfirst(message)
    return said if said.endswith(".") else f"{said}."
