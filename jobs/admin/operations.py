"""Operations on the queue: what the queue refuses, as messages in the form."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from django.utils.text import capfirst

from interfaces.admin.operations import Answers, Operation, OperationRefused
from jobs.errors import (
    EditInvalid,
    EndpointInvalid,
    JobError,
    LimitInvalid,
    PayloadInvalid,
    ScheduleInvalid,
)
from tenants.audit import Actor


@dataclass(frozen=True, kw_only=True)
class QueueOperation(Operation):
    """An operation that calls `jobs.operations`."""

    def run(self, row: Any, answers: Answers, by: Actor) -> Any:
        """Perform the operation.

        Raises:
            OperationRefused: the queue refuses it; the error names the form's wrong field, if any.
        """
        try:
            return super().run(row, answers, by)
        except PayloadInvalid as error:
            raise _invalid("payload", *map(str, error.faults)) from error
        except (LimitInvalid, EditInvalid, EndpointInvalid) as error:
            fault = error.faults[0]
            raise _invalid(fault.field or None, f"{capfirst(fault.message)}.") from error
        except ScheduleInvalid as error:
            fields = {fault.field.partition(".")[0] for fault in error.faults}
            field = fields.pop() if len(fields) == 1 and fields <= set(answers) else None
            lines = [
                fault.message if fault.field == field else str(fault) for fault in error.faults
            ]
            raise _invalid(field, *lines) from error
        except JobError as error:
            raise OperationRefused(f"Nothing was done: {error}.") from error


def _invalid(field: str | None, *lines: str) -> OperationRefused:
    return OperationRefused(*lines, field=field, status=HTTPStatus.BAD_REQUEST)
