"""How operations are described in the OpenAPI schema, their refusals included."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, TypeVar

from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema
from rest_framework import serializers

from tenants.api.problems import PROBLEM_TYPE
from tenants.api.serializers import NoQuery, QuerySerializer, StrictSerializer

F = TypeVar("F", bound=Callable[..., Any])

# Every operation may answer with these, whatever it does.
_ALWAYS: dict[HTTPStatus, str] = {
    HTTPStatus.BAD_REQUEST: "A parameter or field is unknown, missing or wrong; errors names it.",
    HTTPStatus.UNAUTHORIZED: "No API key or session, or one that is not valid.",
    HTTPStatus.FORBIDDEN: "The caller's role in the firm does not allow this.",
    HTTPStatus.NOT_FOUND: "There is no such thing in the caller's firms.",
    HTTPStatus.NOT_ACCEPTABLE: "The answer is JSON; Accept asks for something else.",
    HTTPStatus.TOO_MANY_REQUESTS: "Too many requests; Retry-After says when to go on, in seconds.",
}
_ACTS: dict[HTTPStatus, str] = {
    HTTPStatus.CONFLICT: "Its state does not allow this; nothing was changed.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "The body is too large.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "The body is not application/json.",
}


class FaultSerializer(serializers.Serializer[Any]):
    """One thing that is wrong with a request."""

    field = serializers.CharField(
        help_text="What it is about; empty for the request as a whole.", allow_blank=True
    )
    code = serializers.CharField(help_text="For programs; stays the same.")
    message = serializers.CharField(help_text="For people; may change.")


class ProblemSerializer(serializers.Serializer[Any]):
    """Problem details (RFC 9457): every error has this shape."""

    type = serializers.CharField(help_text="Always about:blank: code tells problems apart.")
    title = serializers.CharField(help_text="The phrase of the HTTP status.")
    status = serializers.IntegerField(help_text="The HTTP status.")
    detail = serializers.CharField(help_text="What happened, for people.")
    code = serializers.CharField(help_text="What happened, for programs.")
    correlation_id = serializers.CharField(help_text="Finds the request in the logs.")
    errors = FaultSerializer(many=True, help_text="Each fault of the request.")


def operation(
    operation_id: str,
    *,
    tag: str,
    summary: str,
    description: str,
    answers: Mapping[HTTPStatus, OpenApiResponse],
    query: type[QuerySerializer] = NoQuery,
    body: type[StrictSerializer] | None = None,
    examples: Sequence[OpenApiExample] = (),
) -> Callable[[F], F]:
    """Describe a method of a view; the refusals every operation shares are added."""
    acts = operation_id.rpartition("_")[2] not in {"list", "show"}
    refusals = _ALWAYS | (_ACTS if acts else {})
    responses: dict[Any, Any] = {status.value: answer for status, answer in answers.items()}
    for status, meaning in refusals.items():
        responses[status.value, PROBLEM_TYPE] = _refusal(status, meaning)
    return extend_schema(
        operation_id=operation_id,
        tags=[tag],
        summary=summary,
        description=description,
        parameters=[query],
        request=body,
        responses=responses,
        examples=list(examples),
    )


def page_of(row: type[serializers.Serializer[Any]]) -> type[serializers.Serializer[Any]]:
    """Return the serializer of a page of such rows."""
    name = row.__name__.removesuffix("Serializer") + "Page"
    fields = {
        "__doc__": "A page of a list.",
        "results": row(many=True),
        "next": serializers.CharField(
            allow_null=True, help_text="The cursor of the next page; null at the end."
        ),
    }
    return type(name, (serializers.Serializer,), fields)


def _refusal(status: HTTPStatus, meaning: str) -> OpenApiResponse:
    return OpenApiResponse(ProblemSerializer, description=meaning)
