"""The base of every resource of firms: one transaction in the caller's scope."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any, TypeVar
from uuid import UUID

from django.db import DatabaseError, transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.utils.cache import patch_cache_control
from rest_framework.authentication import SessionAuthentication
from rest_framework.exceptions import (
    AuthenticationFailed,
    NotAuthenticated,
    NotFound,
    PermissionDenied,
)
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from interfaces.api.parsers import StrictJSONParser
from interfaces.api.problems import TryAgain, answer_with_problem
from interfaces.api.schema import OperationSchema
from interfaces.api.serializers import QuerySerializer, StrictSerializer
from interfaces.database_faults import is_conflict
from tenants.access import Access, access_of
from tenants.api.authentication import ApiKeyAuthentication, IsMember
from tenants.api.keys import Credential
from tenants.models import Firm, FirmOwned, Role
from tenants.scope import firm_scope
from tenants.throttles import CallerThrottle, FirmThrottle, throttle_refusals

M = TypeVar("M", bound=FirmOwned)


class FirmView(APIView):
    """Answers about rows of the caller's firms.

    Authentication and throttling come first, in transactions of their own. The rest is one
    transaction in the caller's tenant scope, narrowed by `?firm=slug` where the operation takes
    it, and rolled back on any error unless `keeps_changes` is set. `interfaces.api.schema.operation`
    declares each method.
    """

    http_method_names = ["get", "head", "post", "patch"]
    # Set here, because a project's REST_FRAMEWORK setting is for its own views. The API key comes
    # first, because a 401 carries the WWW-Authenticate of the first class.
    authentication_classes = (ApiKeyAuthentication, SessionAuthentication)
    parser_classes = (StrictJSONParser,)
    renderer_classes = (JSONRenderer,)
    metadata_class = None
    schema = OperationSchema()
    permission_classes = (IsMember,)
    throttle_classes = (CallerThrottle, FirmThrottle)
    access: Access
    query: dict[str, Any]
    # Set by an operation that writes something to be kept even if it refuses the request.
    keeps_changes = False

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        """Answer the request; 503 if another transaction was in the way of its own."""
        try:
            response = self._answer_in_scope(request, *args, **kwargs)
        except DatabaseError as error:
            if not is_conflict(error):
                raise
            answer = self.handle_exception(TryAgain())
            response = self.finalize_response(self.request, answer, *args, **kwargs)
        # The answer is only for this caller, and may contain mail.
        patch_cache_control(response, private=True, no_store=True)
        return response

    def _answer_in_scope(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponseBase:
        with ExitStack() as self._stack:
            self._in_scope = False
            response = super().dispatch(request, *args, **kwargs)
            if self._in_scope and response.status_code >= 400 and not self.keeps_changes:
                transaction.set_rollback(True)
        return response

    def perform_authentication(self, request: Request) -> None:
        """Authenticate, and find out what the caller may see and do."""
        user, auth = request.user, request.auth
        if isinstance(auth, Credential):
            self.access = auth.access
        else:
            self.access = access_of(user) if user.is_authenticated else Access({})

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Check the caller, the method and the query parameters, then enter the caller's scope."""
        super().initial(request, *args, **kwargs)
        if request.method not in self.allowed_methods:
            self.http_method_not_allowed(request)
        handler = getattr(self, str(request.method).lower())
        query_class: type[QuerySerializer] = handler.query_class
        self.query = query_class.read(request.query_params)
        slug = self.query.pop("firm", None)
        scope = self.access.scope() if slug is None else firm_scope(self.get_firm(slug))
        self._stack.enter_context(scope)
        self._in_scope = True

    def get_exception_handler(self) -> Any:
        """Return the function that turns an error into problem details."""
        return answer_with_problem

    def handle_exception(self, exc: Exception) -> Response:
        """Answer an error; limit the requests that fail to authenticate."""
        if isinstance(exc, AuthenticationFailed | NotAuthenticated):
            exc = throttle_refusals(self.request) or exc
        return super().handle_exception(exc)

    def get_firm(self, slug: str) -> Firm:
        """Return the firm.

        Raises:
            NotFound: the caller sees no such firm.
        """
        firm = Firm.objects.filter(slug=slug).first()
        if firm is None or not self.access.may(Role.VIEWER, firm.pk):
            raise NotFound("There is no such firm.")
        return firm

    def get_row(self, rows: QuerySet[M], pk: UUID, needed: Role = Role.VIEWER) -> M:
        """Return the row, for somebody who has the role `needed` in its firm.

        Raises:
            NotFound: the caller sees no such row.
            PermissionDenied: the caller's role in its firm is too low.
        """
        row = rows.filter(pk=pk).first()
        if row is None:
            raise NotFound
        self.check_role(needed, row.firm_id)
        return row

    def check_role(self, needed: Role, firm_id: int) -> None:
        """Check that the caller has the role `needed` in the firm.

        Raises:
            PermissionDenied: the caller's role is too low.
        """
        if not self.access.may(needed, firm_id):
            raise PermissionDenied(f"This needs the role {needed.value} in the firm.")

    def get_body(self, body: type[StrictSerializer]) -> dict[str, Any]:
        """Return the request's validated body.

        Raises:
            ValidationError: naming each field that is unknown or wrong.
        """
        serializer = body(data=self.request.data)
        serializer.is_valid(raise_exception=True)
        return dict(serializer.validated_data)
