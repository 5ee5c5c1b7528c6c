"""The shape of every error: problem details (RFC 9457) with a code and the faulty fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from http import HTTPStatus
from typing import Any, TypedDict

from django.http import Http404
from rest_framework.exceptions import APIException, NotFound, PermissionDenied, ValidationError
from rest_framework.response import Response

from interfaces.correlation import current_correlation_id

PROBLEM_TYPE = "application/problem+json"


@dataclass(frozen=True)
class Fault:
    """One thing that is wrong with a request; `field` is empty for the request as a whole."""

    field: str
    code: str
    message: str


class Problem(TypedDict):
    """The body of every error."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    correlation_id: str
    errors: list[dict[str, str]]


class TryAgain(APIException):
    """Another transaction was in the way of the request's, which was rolled back."""

    status_code = HTTPStatus.SERVICE_UNAVAILABLE.value
    default_code = "try_again"
    default_detail = (
        "Somebody else changed the same rows meanwhile. Nothing was changed: send it again."
    )
    # Seconds; DRF makes it the header Retry-After.
    wait = 1


class Refusal(APIException):
    """A refused request, with its faults."""

    def __init__(
        self, status: HTTPStatus, code: str, detail: str, faults: Sequence[Fault] = ()
    ) -> None:
        super().__init__(detail, code)
        self.status_code = status.value
        self.faults = faults


def problem(status: int, code: str, detail: str, faults: Sequence[Fault] = ()) -> Problem:
    """Return the body of an error answer."""
    return Problem(
        # The code tells problems apart; with about:blank the title is HTTP's own phrase.
        type="about:blank",
        title=HTTPStatus(status).phrase,
        status=status,
        detail=_sendable(detail),
        code=code,
        correlation_id=current_correlation_id() or "",
        errors=[
            {name: _sendable(text) for name, text in asdict(fault).items()} for fault in faults
        ],
    )


def _sendable(text: str) -> str:
    """Return text that can be encoded, whatever the request contained."""
    return text[:2000].encode("utf-8", "replace").decode()


def answer_with_problem(error: Exception, context: dict[str, Any]) -> Response | None:
    """Answer for DRF; None for an unexpected error, which Django logs and answers with 500."""
    # Imported here, because its module loads the default parsers, which import this module.
    from rest_framework.views import exception_handler

    answer = exception_handler(error, context)
    if answer is None:
        return None
    answer.data = _describe(_as_api_exception(error))
    answer.content_type = PROBLEM_TYPE
    return answer


def _as_api_exception(error: Exception) -> APIException:
    if isinstance(error, APIException):
        return error
    return NotFound() if isinstance(error, Http404) else PermissionDenied()


def _describe(error: APIException) -> Problem:
    if isinstance(error, ValidationError):
        faults = list(_faults_in(error.get_full_details()))
        detail = "The request is not valid; `errors` says what is wrong."
        return problem(error.status_code, "invalid", detail, faults)
    faults = list(error.faults) if isinstance(error, Refusal) else []
    return problem(error.status_code, str(error.get_codes()), str(error.detail), faults)


def _faults_in(details: Any, field: str = "") -> Iterator[Fault]:
    """Flatten DRF's nested details: lists of faults, or mappings of fields to such lists."""
    if isinstance(details, list):
        for item in details:
            yield from _faults_in(item, field)
    elif set(details) == {"message", "code"} and isinstance(details["code"], str):
        yield Fault(field, details["code"], str(details["message"]))
    else:
        for name, inner in details.items():
            path = "" if name == "non_field_errors" else str(name)
            yield from _faults_in(inner, f"{field}.{path}" if field and path else field or path)
