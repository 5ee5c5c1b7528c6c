"""What the queue's errors are in HTTP."""

from __future__ import annotations

from http import HTTPStatus

from interfaces.api.problems import Fault, Refusal
from jobs.errors import (
    JobError,
    LimitInvalid,
    PayloadInvalid,
    ReasonMissing,
    UnknownJob,
    WrongState,
)

_STATUS: dict[type[JobError], HTTPStatus] = {
    LimitInvalid: HTTPStatus.BAD_REQUEST,
    PayloadInvalid: HTTPStatus.BAD_REQUEST,
    ReasonMissing: HTTPStatus.BAD_REQUEST,
    UnknownJob: HTTPStatus.NOT_FOUND,
    WrongState: HTTPStatus.CONFLICT,
}


def refusal_of(error: JobError) -> Refusal | None:
    """Return how the API refuses; None for an error no request should lead to."""
    for kind, status in _STATUS.items():
        if isinstance(error, kind):
            return Refusal(status, error.code, str(error), _faults(error))
    return None


def _faults(error: JobError) -> list[Fault]:
    if isinstance(error, LimitInvalid | PayloadInvalid):
        return [Fault(fault.field, fault.code, fault.message) for fault in error.faults]
    if isinstance(error, ReasonMissing):
        return [Fault("reason", error.code, str(error))]
    return []
