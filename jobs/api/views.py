"""What the queue's resources share: lists, operations on a row, and errors as problem details."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, ClassVar, cast
from uuid import UUID

from django.contrib.auth.models import AbstractBaseUser
from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiExample, OpenApiResponse
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer
from rest_framework.viewsets import ViewSetMixin

from interfaces.api.problems import Fault, Refusal
from interfaces.api.schema import operation, page_of
from interfaces.api.serializers import QuerySerializer, StrictSerializer
from jobs.api.idempotency import done_once
from jobs.api.query import FirmPageQuery
from jobs.api.requests import OptionalReason
from jobs.engine.redaction import redact_secrets, redact_values
from jobs.errors import (
    ArgumentsInvalid,
    JobError,
    PayloadInvalid,
    ReasonMissing,
    UnknownJob,
    WrongState,
)
from jobs.queries.lists import CursorInvalid, Page, get_page
from tenants.api.views import FirmView
from tenants.audit import Actor
from tenants.models import Firm, FirmOwned, Role

_STATUS: dict[type[JobError], HTTPStatus] = {
    ArgumentsInvalid: HTTPStatus.BAD_REQUEST,
    PayloadInvalid: HTTPStatus.BAD_REQUEST,
    ReasonMissing: HTTPStatus.BAD_REQUEST,
    UnknownJob: HTTPStatus.NOT_FOUND,
    WrongState: HTTPStatus.CONFLICT,
}


class QueueView(ViewSetMixin, FirmView):
    """A resource of the queue: its rows, and the operations on them."""

    # In the OpenAPI schema: the beginning of the operations' ids, and the operations' tag.
    resource: ClassVar[str]
    tag: ClassVar[str]
    # The model of the rows, its serializer, and the part of the URL that names a row.
    model: ClassVar[type[FirmOwned]]
    serializer: ClassVar[type[Serializer[Any]]]
    lookup_url_kwarg: ClassVar[str] = "pk"

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Check the request and enter the scope; a request done before gets its old answer."""
        super().initial(request, *args, **kwargs)
        method = str(request.method).lower()
        if method not in ("get", "head"):
            handler = getattr(self, method)
            setattr(self, method, done_once(request, self.access, handler))

    def get_rows(self, **_: Any) -> QuerySet[Any]:
        """Return the rows in scope; a list that has filters applies them here."""
        return self.model.objects.select_related("firm")

    def get_page(self, filters: dict[str, Any], *, limit: int, cursor: str | None) -> Page[Any]:
        """Return a page of the rows that meet the filters.

        Raises:
            CursorInvalid: no list gave out the cursor.
        """
        return get_page(self.get_rows(**filters), limit=limit, cursor=cursor)

    def get_object(self, needed: Role = Role.VIEWER) -> Any:
        """Return the row that the URL names; see `get_row`."""
        return self.get_row(self.get_rows(), self.kwargs[self.lookup_url_kwarg], needed)

    def get_context(self, page: Page[Any]) -> dict[str, Any]:
        """Return the context of the serializer of a page; empty by default."""
        return {}

    def represent(self, row: Any) -> Any:
        """Return the JSON of one row, redacted for the caller's role."""
        return self.serializer(row, context=self.redaction(row.firm_id)).data

    def handle_exception(self, exc: Exception) -> Response:
        """Turn the queue's errors into problem details."""
        if isinstance(exc, JobError):
            exc = _refusal_of(exc) or exc
        elif isinstance(exc, CursorInvalid):
            exc = refusal("cursor", "cursor_invalid", str(exc), "The cursor is not valid.")
        return super().handle_exception(exc)

    def firm_named(self, slug: str | None, needed: Role) -> Firm:
        """Return the firm with this slug, or the caller's only firm.

        Raises:
            Refusal: no slug is given, and the caller has several firms.
            NotFound: the caller sees no such firm.
            PermissionDenied: the caller's role in the firm is too low.
        """
        if slug is not None:
            firm = self.get_firm(slug)
        elif (only := self.access.only_firm_id) is not None:
            firm = Firm.objects.get(pk=only)
        else:
            raise refusal("firm", "required", "Name the firm.")
        self.check_role(needed, firm.pk)
        return firm

    def pop_firm_or_every(self, body: dict[str, Any], needed: Role) -> Firm | None:
        """Take `firm` and `everywhere` out of the body; return the firm, None for every firm.

        Raises:
            Refusal: no firm is named, and the caller has several; or both are given.
            NotFound: the caller sees no such firm.
            PermissionDenied: the caller's role is too low.
        """
        slug = body.pop("firm", None)
        if not body.pop("everywhere"):
            return self.firm_named(slug, needed)
        self.check_platform_staff()
        if slug is not None:
            raise refusal("everywhere", "invalid", "Give either a firm or everywhere, not both.")
        return None

    def check_platform_staff(self) -> None:
        """Raise PermissionDenied unless the caller is platform staff."""
        if not self.access.is_platform_staff:
            raise PermissionDenied("Only platform staff may change what applies to every firm.")

    def redaction(self, firm_id: int) -> dict[str, Any]:
        """Return the serializer context that hides from a viewer every value of a payload."""
        may_read = self.access.may(Role.OPERATOR, firm_id)
        return {"redact": redact_secrets if may_read else redact_values}

    @property
    def actor(self) -> Actor:
        """The caller, as the audit log names them."""
        return Actor("api", cast("AbstractBaseUser", self.request.user))


def list_operation(
    summary: str,
    description: str,
    *,
    serializer: type[Serializer[Any]],
    rows: str,
    query: type[QuerySerializer] = FirmPageQuery,
) -> Callable[..., Response]:
    """Return the GET of a list; `rows` names the rows of a page in the schema."""
    page_serializer = page_of(serializer)

    @operation(
        summary,
        description,
        answers={HTTPStatus.OK: OpenApiResponse(page_serializer, f"A page of {rows}.")},
        query=query,
    )
    def list_rows(self: QueueView, _: Request, **__: UUID) -> Response:
        filters = dict(self.query)
        limit, cursor = filters.pop("limit"), filters.pop("cursor", None)
        page = self.get_page(filters, limit=limit, cursor=cursor)
        results = serializer(page.rows, many=True, context=self.get_context(page)).data
        return Response({"results": results, "next": page.next_cursor})

    return list_rows


def show_operation(
    summary: str,
    description: str,
    *,
    answer: OpenApiResponse,
    example: OpenApiExample | None = None,
) -> Callable[..., Response]:
    """Return the GET of one row."""

    @operation(summary, description, answers={HTTPStatus.OK: answer}, example=example)
    def show_row(self: QueueView, _: Request, **__: UUID) -> Response:
        return Response(self.represent(self.get_object()))

    return show_row


def row_operation(
    operate: Callable[..., object],
    summary: str,
    description: str,
    *,
    answer: OpenApiResponse,
    example: OpenApiExample,
    role: Role = Role.OPERATOR,
    body: type[StrictSerializer] = OptionalReason,
) -> Callable[..., Response]:
    """Return the POST or PATCH that calls `operate` with a row, the actor and the body.

    The answer is the row after the operation, or before it if the operation deleted the row.
    """

    @operation(summary, description, answers={HTTPStatus.OK: answer}, body=body, example=example)
    def perform(self: QueueView, _: Request, **__: UUID) -> Response:
        row = self.get_object(role)
        operate(row, by=self.actor, **self.get_body(body))
        return Response(self.represent(self.get_rows().filter(pk=row.pk).first() or row))

    return perform


def example(name: str, /, **body: Any) -> OpenApiExample:
    """Return an example of a request's body; firms and people in it are invented."""
    return OpenApiExample(name, request_only=True, value=body)


def refusal(field: str, code: str, message: str, detail: str = "") -> Refusal:
    """Return the 400 for one wrong field."""
    fault = Fault(field, code, message)
    return Refusal(HTTPStatus.BAD_REQUEST, "invalid", detail or message, [fault])


def _refusal_of(error: JobError) -> Refusal | None:
    """Return the refusal for an error, None for one that no request should cause."""
    for kind, status in _STATUS.items():
        if isinstance(error, kind):
            return Refusal(status, error.code, str(error), _faults(error))
    return None


def _faults(error: JobError) -> list[Fault]:
    if isinstance(error, ArgumentsInvalid | PayloadInvalid):
        return [Fault(fault.field, fault.code, fault.message) for fault in error.faults]
    if isinstance(error, ReasonMissing):
        return [Fault("reason", error.code, str(error))]
    return []
