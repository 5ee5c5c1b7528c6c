"""The correlation id of web requests."""

from __future__ import annotations

from collections.abc import Callable

from django.http import HttpRequest, HttpResponseBase

from interfaces.correlation import MAX_CORRELATION_ID_LENGTH, correlation, new_correlation_id

GetResponse = Callable[[HttpRequest], HttpResponseBase]


class CorrelationMiddleware:
    """Takes the request's X-Correlation-ID, or creates an id; the response has it as a header."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer the request with its correlation id in force."""
        given = request.headers.get("X-Correlation-ID", "")
        usable = given.isprintable() and given.isascii() and given.strip() == given
        correlation_id = given if given and usable else new_correlation_id()
        correlation_id = correlation_id[:MAX_CORRELATION_ID_LENGTH]
        with correlation(correlation_id):
            response = self.get_response(request)
        response["X-Correlation-ID"] = correlation_id
        return response
