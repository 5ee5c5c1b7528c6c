"""What every web request carries: its correlation id and the firms its user belongs to."""

from __future__ import annotations

from collections.abc import Callable

from django.db import transaction
from django.http import HttpRequest, HttpResponseBase

from tenants.access import firm_ids_of
from tenants.context import MAX_CORRELATION_ID_LENGTH, correlation, new_correlation_id
from tenants.scope import all_firms, firms_scope

GetResponse = Callable[[HttpRequest], HttpResponseBase]


class CorrelationMiddleware:
    """Takes X-Correlation-ID from the request, or makes one, and answers with it."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer the request under its correlation id."""
        given = request.headers.get("X-Correlation-ID", "")
        usable = given.isprintable() and given.isascii() and given.strip() == given
        correlation_id = given if given and usable else new_correlation_id()
        correlation_id = correlation_id[:MAX_CORRELATION_ID_LENGTH]
        with correlation(correlation_id):
            response = self.get_response(request)
        response["X-Correlation-ID"] = correlation_id
        return response


class FirmScopeMiddleware:
    """Runs a signed-in user's request in one transaction that sees the user's firms alone."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer the request in the scope of its user; an error rolls everything back."""
        if not request.user.is_authenticated:
            return self.get_response(request)
        firm_ids = firm_ids_of(request.user)
        scope = all_firms("platform staff") if firm_ids is None else firms_scope(firm_ids)
        with scope:
            response = self.get_response(request)
            if response.status_code >= 500:
                transaction.set_rollback(True)
            return response
