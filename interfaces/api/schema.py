"""Descriptions of API operations for the OpenAPI schema, with their refusals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any, TypeVar

from drf_spectacular.extensions import OpenApiSerializerExtension
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import (
    Direction,
    OpenApiExample,
    OpenApiParameter,
    OpenApiResponse,
    extend_schema,
    extend_schema_serializer,
)
from rest_framework import serializers

from interfaces.api.problems import PROBLEM_TYPE, Fault, problem
from interfaces.api.serializers import NoQuery, QuerySerializer, StrictSerializer

F = TypeVar("F", bound=Callable[..., Any])

RETRY_AFTER = OpenApiParameter(
    "Retry-After",
    int,
    OpenApiParameter.HEADER,
    response=[HTTPStatus.TOO_MANY_REQUESTS.value, HTTPStatus.SERVICE_UNAVAILABLE.value],
    description="In how many seconds to send the request again; of a 429, when requests are counted "
    "from zero.",
)

IDEMPOTENCY_KEY = "Idempotency-Key"
KEY_PATTERN = "[!-~]{1,200}"
_IDEMPOTENCY_KEY = OpenApiParameter(
    IDEMPOTENCY_KEY,
    {"type": "string", "pattern": f"^{KEY_PATTERN}$"},
    OpenApiParameter.HEADER,
    description="Any text, new for each thing to do. The same request with the same key is done "
    "once; for a day it gets the same answer. A different request with the key is refused with "
    "409.",
)

EXAMPLE_CORRELATION_ID = "0190b5a4-7c1e-7d3a-9f42-5b8e6c0a1d27"

# Code and description of a refusal.
_Meaning = tuple[str, str]

# The refusals of every operation.
_ALWAYS: dict[HTTPStatus, _Meaning] = {
    HTTPStatus.BAD_REQUEST: (
        "invalid",
        "A parameter or field is unknown, missing or wrong; `errors` names it.",
    ),
    HTTPStatus.UNAUTHORIZED: (
        "not_authenticated",
        "There is no valid API key and no valid session.",
    ),
    HTTPStatus.FORBIDDEN: (
        "permission_denied",
        "The caller's role in the firm does not allow this.",
    ),
    HTTPStatus.NOT_FOUND: ("not_found", "There is no such thing in the caller's firms."),
    HTTPStatus.NOT_ACCEPTABLE: (
        "not_acceptable",
        "The answer is JSON, but Accept asks for something else.",
    ),
    HTTPStatus.TOO_MANY_REQUESTS: (
        "throttled",
        "Too many requests in this minute; Retry-After says how long to wait.",
    ),
    HTTPStatus.SERVICE_UNAVAILABLE: (
        "try_again",
        "Somebody else changed the same rows meanwhile; nothing was changed.",
    ),
}
_CHANGES: dict[HTTPStatus, _Meaning] = {
    HTTPStatus.CONFLICT: (
        "wrong_state",
        "The row's state does not allow this; nothing was changed.",
    ),
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: ("body_too_large", "The body is too large."),
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: (
        "unsupported_media_type",
        "The body is not application/json.",
    ),
}


class FaultSerializer(serializers.Serializer[Any]):
    """One thing that is wrong with a request."""

    field = serializers.CharField(
        help_text="The field or parameter; empty for the request as a whole.", allow_blank=True
    )
    code = serializers.CharField(help_text="For programs; it does not change.")
    message = serializers.CharField(help_text="For people; it may change.")


class ProblemSerializer(serializers.Serializer[Any]):
    """Problem details (RFC 9457): every error has this shape."""

    type = serializers.CharField(help_text="Always about:blank; use `code` to tell problems apart.")
    title = serializers.CharField(help_text="The phrase of the HTTP status.")
    status = serializers.IntegerField(help_text="The HTTP status.")
    detail = serializers.CharField(help_text="What happened, for people.")
    code = serializers.CharField(help_text="What happened, for programs.")
    correlation_id = serializers.CharField(help_text="The id that finds the request in the logs.")
    errors = FaultSerializer(  # type: ignore[assignment]  # DRF collects fields: no clash
        many=True, help_text="Every fault of the request."
    )


class StrictSerializerSchema(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]  # its registration is untyped
    """Says that a body takes no other fields than those described."""

    target_class = StrictSerializer
    match_subclasses = True

    def map_serializer(self, auto_schema: AutoSchema, direction: Direction) -> dict[str, Any]:
        """Return the schema of the body."""
        # Untyped and private, but drf-spectacular's documentation tells extensions to call it.
        plain = auto_schema._map_serializer  # noqa: SLF001
        schema = plain(self.target, direction, bypass_extensions=True)  # type: ignore[no-untyped-call]
        return {**schema, "additionalProperties": False}


class OperationSchema(AutoSchema):
    """Names an operation after its view's resource and the view's method."""

    view: Any

    def get_operation_id(self) -> str:
        """Return the id, such as `pauses_list`."""
        return f"{self.view.resource}_{self.view.action}"

    def get_tags(self) -> list[str]:
        """Return the tag of the resource."""
        return [self.view.tag]


def operation(
    summary: str,
    description: str,
    *,
    answers: Mapping[HTTPStatus, OpenApiResponse],
    query: type[QuerySerializer] = NoQuery,
    body: type[StrictSerializer] | None = None,
    example: OpenApiExample | None = None,
    file_type: str = "",
    may_conflict: bool = False,
) -> Callable[[F], F]:
    """Describe a method of a view, and add the refusals that all operations share.

    `file_type` is the media type of an answer that is a file; `may_conflict` adds a 409, which
    operations with a body have without it.

    The view reads the parameters of `query`.
    """
    responses: dict[Any, Any] = {status.value: answer for status, answer in answers.items()}
    if file_type:
        responses[HTTPStatus.OK.value, file_type] = OpenApiTypes.BINARY
    refusals = _ALWAYS if body is None else _ALWAYS | _CHANGES
    if may_conflict:
        refusals = refusals | {HTTPStatus.CONFLICT: _CHANGES[HTTPStatus.CONFLICT]}
    for status, meaning in refusals.items():
        responses[status.value, PROBLEM_TYPE] = _refusal(status, *meaning)
    describe = extend_schema(
        summary=summary,
        description=description,
        parameters=[
            RETRY_AFTER,
            *([] if query is NoQuery else [query]),
            *([] if body is None else [_IDEMPOTENCY_KEY]),
        ],
        request=body,
        responses=responses,
        examples=[] if example is None else [example],
    )

    def decorate(method: F) -> F:
        method.query_class = query  # type: ignore[attr-defined]  # read by the view
        # `extend_schema` extends the schema class named here. Without it, it extends that of the
        # REST_FRAMEWORK setting, which in another project is not even one of drf-spectacular's.
        method.kwargs = {"schema": OperationSchema}  # type: ignore[attr-defined]
        return describe(method)

    return decorate


def page_of(row: type[serializers.Serializer[Any]]) -> type[serializers.Serializer[Any]]:
    """Return the serializer of a page of such rows."""
    name = row.__name__.removesuffix("Serializer") + "Page"
    fields = {
        "__doc__": "A page of a list.",
        "results": row(many=True),
        "next": serializers.CharField(
            allow_null=True, help_text="The cursor of the next page; null on the last one."
        ),
    }
    page = type(name, (serializers.Serializer,), fields)
    return extend_schema_serializer(many=False)(page)


def _refusal(status: HTTPStatus, code: str, meaning: str) -> OpenApiResponse:
    fault = Fault("colour", "unknown_field", "This parameter or field is not known here.")
    faults = [fault] if status == HTTPStatus.BAD_REQUEST else []
    body = problem(status, code, meaning, faults)
    # Not that of the process's first request, in which the views are imported.
    body["correlation_id"] = EXAMPLE_CORRELATION_ID
    example = OpenApiExample(
        status.phrase,
        response_only=True,
        status_codes=[str(status.value)],
        media_type=PROBLEM_TYPE,
        value=body,
    )
    return OpenApiResponse(ProblemSerializer, description=meaning, examples=[example])
