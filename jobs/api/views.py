"""What the queue's resources share: errors as problem details, the firm of a body, pages."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any, ClassVar, TypeVar, cast

from django.contrib.auth.models import AbstractBaseUser
from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema_view
from rest_framework.exceptions import PermissionDenied
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer

from interfaces.api.problems import Fault, Refusal
from interfaces.api.schema import operation, page_of
from jobs.engine.redaction import redact_secrets, redact_values
from jobs.errors import (
    JobError,
    LimitInvalid,
    PayloadInvalid,
    ReasonMissing,
    UnknownJob,
    WrongState,
)
from jobs.queries.lists import CursorInvalid, Page, get_page
from tenants.api.views import FirmView
from tenants.audit import Actor
from tenants.models import Firm, Role

_STATUS: dict[type[JobError], HTTPStatus] = {
    LimitInvalid: HTTPStatus.BAD_REQUEST,
    PayloadInvalid: HTTPStatus.BAD_REQUEST,
    ReasonMissing: HTTPStatus.BAD_REQUEST,
    UnknownJob: HTTPStatus.NOT_FOUND,
    WrongState: HTTPStatus.CONFLICT,
}


class QueueView(FirmView):
    """A resource of the queue."""

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

    def firm_or_every(self, slug: str | None, needed: Role, *, everywhere: bool) -> Firm | None:
        """Return the firm as `firm_named` does, None for every firm.

        Raises:
            Refusal: no slug is given, and the caller has several firms; or both are given.
            NotFound: the caller sees no such firm.
            PermissionDenied: the caller's role is too low.
        """
        if not everywhere:
            return self.firm_named(slug, needed)
        self.check_platform_staff()
        if slug is not None:
            raise refusal("everywhere", "invalid", "Name a firm or say everywhere, not both.")
        return None

    def check_platform_staff(self) -> None:
        """Require platform staff, who alone may change what holds for every firm.

        Raises:
            PermissionDenied: the caller is not platform staff.
        """
        if not self.access.is_platform_staff:
            raise PermissionDenied("What holds everywhere is for platform staff.")

    def redaction(self, firm_id: int) -> dict[str, Any]:
        """Return the serializer context that hides from a viewer every value of a payload."""
        may_read = self.access.may(Role.OPERATOR, firm_id)
        return {"redact": redact_secrets if may_read else redact_values}

    @property
    def actor(self) -> Actor:
        """The caller, as the audit log names them."""
        return Actor("api", cast("AbstractBaseUser", self.request.user))


class ListView(QueueView):
    """A list, a page at a time; `query_class` declares its filters."""

    serializer: ClassVar[type[Serializer[Any]]]

    def get_rows(self, **filters: Any) -> QuerySet[Any]:
        """Return the rows that meet the filters of the query."""
        raise NotImplementedError

    def get_context(self, page: Page[Any]) -> dict[str, Any]:
        """Return the context of the serializer; empty by default."""
        return {}

    def get(self, request: Request) -> Response:
        """Return a page."""
        filters = dict(self.query)
        limit, cursor = filters.pop("limit"), filters.pop("cursor", None)
        page = get_page(self.get_rows(**filters), limit=limit, cursor=cursor)
        rows = self.serializer(page.rows, many=True, context=self.get_context(page)).data
        return Response({"results": rows, "next": page.next_cursor})


V = TypeVar("V", bound=type[ListView])


def list_operation(
    operation_id: str, *, tag: str, summary: str, description: str, rows: str
) -> Callable[[V], V]:
    """Describe the `get` of a `ListView` in the schema; `rows` says what a page consists of."""

    def describe(view: V) -> V:
        page = OpenApiResponse(page_of(view.serializer), f"A page of {rows}.")
        get = operation(
            operation_id,
            tag=tag,
            summary=summary,
            description=description,
            answers={HTTPStatus.OK: page},
            query=view.query_class,
        )
        return extend_schema_view(get=get)(view)

    return describe


def example(name: str, **body: Any) -> OpenApiExample:
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
    if isinstance(error, LimitInvalid | PayloadInvalid):
        return [Fault(fault.field, fault.code, fault.message) for fault in error.faults]
    if isinstance(error, ReasonMissing):
        return [Fault("reason", error.code, str(error))]
    return []
