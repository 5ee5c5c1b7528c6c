"""Operations of mail's services in the admin."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from django.utils.text import capfirst

from interfaces.admin.operations import (
    Operation,
    OperationForm,
    OperationRefused,
    OptionalReasonForm,
    Variant,
)
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


def changed_at(row: Any) -> str:
    """Return when the row was changed, on which what its user decides depends."""
    return str(row.changed_at)


@dataclass(frozen=True, kw_only=True)
class NewRow(MailOperation):
    """Stores a new row."""

    name: str = "new"
    icon: str = "add"
    variant: Variant = "primary"


@dataclass(frozen=True, kw_only=True)
class ChangeRow(MailOperation):
    """Changes a row that nobody has changed since its form was shown."""

    name: str = "edit"
    label: str = "Change"
    icon: str = "edit"
    seen: Callable[[Any], str] = changed_at


@dataclass(frozen=True, kw_only=True)
class DeleteRow(MailOperation):
    """Deletes a row that nobody has changed since its form was shown."""

    name: str = "remove"
    label: str = "Delete"
    icon: str = "delete"
    variant: Variant = "danger"
    form: type[OperationForm] = OptionalReasonForm
    seen: Callable[[Any], str] = changed_at


def _sentence(part: str, message: str) -> str:
    """Return a fault as a sentence for its field; `part` names the faulty part of a JSON value."""
    said = f"{part}: {message}" if part else capfirst(message)
    return said if said.endswith(".") else f"{said}."
