"""What every web request carries: its correlation id and the firms its user belongs to."""

from __future__ import annotations

from collections.abc import Callable

from django.db import transaction
from django.http import HttpRequest, HttpResponseBase

from interfaces.correlation import MAX_CORRELATION_ID_LENGTH, correlation, new_correlation_id
from tenants.access import access_of
from tenants.api import API_PREFIX

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
    """Runs a signed-in user's request in one transaction that sees the user's firms alone.

    The API is left to itself: it opens the scope once it knows whose key or session it is.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer the request in the scope of its user; an error rolls everything back."""
        if request.path_info.startswith(API_PREFIX) or not request.user.is_authenticated:
            return self.get_response(request)
        with access_of(request.user).scope():
            response = self.get_response(request)
            if response.status_code >= 500:
                transaction.set_rollback(True)
            return response
