"""Operations on the queue: what the queue refuses, as messages in the form."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from django.utils.text import capfirst

from interfaces.admin.operations import Answers, Operation, OperationRefused
from jobs.errors import JobError, LimitInvalid, PayloadInvalid, ScheduleInvalid
from tenants.audit import Actor


@dataclass(frozen=True, kw_only=True)
class QueueOperation(Operation):
    """An operation that calls `jobs.operations`."""

    def run(self, row: Any, answers: Answers, by: Actor) -> Any:
        """Perform it.

        Raises:
            OperationRefused: the queue refuses it.
        """
        with refusals(answers):
            return super().run(row, answers, by)


@contextmanager
def refusals(fields: Collection[str]) -> Iterator[None]:
    """Turn the queue's errors into OperationRefused, at the form's field where one is at fault."""
    try:
        yield
    except PayloadInvalid as error:
        lines = [f"{fault.field}: {fault.message}" for fault in error.faults]
        raise OperationRefused(*lines, field="payload", status=HTTPStatus.BAD_REQUEST) from error
    except LimitInvalid as error:
        fault = error.faults[0]
        raise OperationRefused(
            f"{capfirst(fault.message)}.", field=fault.field, status=HTTPStatus.BAD_REQUEST
        ) from error
    except ScheduleInvalid as error:
        at_fault = {fault.field.partition(".")[0] for fault in error.faults}
        only = at_fault.pop() if len(at_fault) == 1 and at_fault <= set(fields) else None
        lines = [
            fault.message if fault.field == only else f"{fault.field}: {fault.message}"
            for fault in error.faults
        ]
        raise OperationRefused(*lines, field=only, status=HTTPStatus.BAD_REQUEST) from error
    except JobError as error:
        raise OperationRefused(f"Nothing was done: {error}.") from error
