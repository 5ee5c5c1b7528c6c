"""Operations of mail's services on the admin's pages."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from interfaces.admin.operations import Operation, OperationRefused
from mail.errors import FaultyInput, MailError
from tenants.models import Role


@dataclass(frozen=True, kw_only=True)
class MailOperation(Operation):
    """An operation that a service of mail performs; the service's errors are shown in its form."""

    role: str = Role.ADMIN

    def run(self, row: Any, answers: Any, by: Any) -> Any:
        """Perform it.

        Raises:
            OperationRefused: the service refuses it; it names the form's field at fault.
        """
        try:
            return super().run(row, answers, by)
        except FaultyInput as error:
            fields = {fault["field"].partition(".")[0] for fault in error.errors}
            field = fields.pop() if len(fields) == 1 else None
            lines = [f"{fault['field']} {fault['message']}" for fault in error.errors]
            raise OperationRefused(*lines, field=field, status=HTTPStatus.BAD_REQUEST) from error
        except MailError as error:
            raise OperationRefused(str(error)) from error
