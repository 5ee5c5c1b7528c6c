"""Django's own error answers: problem details under the API, error pages elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.defaultfilters import filesizeformat
from django.template.loader import render_to_string
from django.views import defaults

from interfaces.api import API_PREFIX
from interfaces.api.problems import PROBLEM_TYPE, problem

Handler = Callable[..., HttpResponse]


def _bad_request_page(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer 400; for a form that is too large, 413 with its size and the limit."""
    if not isinstance(exception, RequestDataTooBig):
        return defaults.bad_request(request, exception)
    sizes = {
        "sent": filesizeformat(request.META["CONTENT_LENGTH"]),
        "limit": filesizeformat(settings.DATA_UPLOAD_MAX_MEMORY_SIZE),
    }
    page = render_to_string("413.html", sizes)
    return HttpResponse(page, status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE)


def _handler(page: Handler, status: HTTPStatus, code: str, detail: str) -> Handler:
    """Return a handler that answers with this problem under the API, with the page elsewhere."""

    def answer(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        if not request.path_info.startswith(API_PREFIX):
            return page(request, *args, **kwargs)
        body = problem(status, code, detail)
        return JsonResponse(body, status=status, content_type=PROBLEM_TYPE)

    return answer


bad_request = _handler(
    _bad_request_page, HTTPStatus.BAD_REQUEST, "bad_request", "The request cannot be read."
)
permission_denied = _handler(
    defaults.permission_denied, HTTPStatus.FORBIDDEN, "permission_denied", "This is not allowed."
)
page_not_found = _handler(
    defaults.page_not_found,
    HTTPStatus.NOT_FOUND,
    "not_found",
    "There is nothing at this address.",
)
server_error = _handler(
    defaults.server_error,
    HTTPStatus.INTERNAL_SERVER_ERROR,
    "internal_error",
    "Something is broken here; the correlation id finds it in the logs. Nothing was changed.",
)
