"""Turns what a view raises into problem details."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from django.http import Http404
from rest_framework.exceptions import APIException, NotFound, PermissionDenied, ValidationError
from rest_framework.response import Response
from rest_framework.views import exception_handler

from interfaces.api.problems import PROBLEM_TYPE, Fault, Problem, Refusal, problem


def answer_with_problem(error: Exception, context: dict[str, Any]) -> Response | None:
    """Answer for DRF; None for what is a bug here: Django logs that and answers 500."""
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
        detail = "The request is not valid: errors says what to mend."
        return problem(error.status_code, "invalid", detail, faults)
    faults = list(error.faults) if isinstance(error, Refusal) else []
    return problem(error.status_code, str(error.get_codes()), str(error.detail), faults)


def _faults_in(details: Any, field: str = "") -> Iterator[Fault]:
    """Flatten what DRF nests: a list of faults, or such lists by field."""
    if isinstance(details, list):
        for item in details:
            yield from _faults_in(item, field)
    elif set(details) == {"message", "code"} and isinstance(details["code"], str):
        yield Fault(field, details["code"], str(details["message"]))
    else:
        for name, inner in details.items():
            path = "" if name == "non_field_errors" else str(name)
            yield from _faults_in(inner, f"{field}.{path}" if field and path else field or path)
