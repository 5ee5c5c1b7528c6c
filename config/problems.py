"""Django's own error answers: problem details under the API, error pages elsewhere."""

from __future__ import annotations

from http import HTTPStatus

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.defaultfilters import filesizeformat
from django.template.loader import render_to_string
from django.views import defaults

from interfaces.api import API_PREFIX
from interfaces.api.problems import PROBLEM_TYPE, problem


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer 400; to a form that is too large, 413 with its size and the limit."""
    if not _asks_api(request):
        if isinstance(exception, RequestDataTooBig):
            return _too_large(request)
        return defaults.bad_request(request, exception)
    return _answer(HTTPStatus.BAD_REQUEST, "bad_request", "The request cannot be read.")


def permission_denied(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer 403."""
    if not _asks_api(request):
        return defaults.permission_denied(request, exception)
    return _answer(HTTPStatus.FORBIDDEN, "permission_denied", "This is not allowed.")


def page_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer 404."""
    if not _asks_api(request):
        return defaults.page_not_found(request, exception)
    return _answer(HTTPStatus.NOT_FOUND, "not_found", "There is nothing at this address.")


def server_error(request: HttpRequest) -> HttpResponse:
    """Answer 500."""
    if not _asks_api(request):
        return defaults.server_error(request)
    return _answer(
        HTTPStatus.INTERNAL_SERVER_ERROR,
        "internal_error",
        "Something is broken here; the correlation id finds it in the logs. Nothing was changed.",
    )


def _too_large(request: HttpRequest) -> HttpResponse:
    sizes = {
        "sent": filesizeformat(request.META["CONTENT_LENGTH"]),
        "limit": filesizeformat(settings.DATA_UPLOAD_MAX_MEMORY_SIZE),
    }
    page = render_to_string("413.html", sizes)
    return HttpResponse(page, status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE)


def _asks_api(request: HttpRequest) -> bool:
    return request.path_info.startswith(API_PREFIX)


def _answer(status: HTTPStatus, code: str, detail: str) -> HttpResponse:
    body = problem(status, code, detail)
    return JsonResponse(body, status=status, content_type=PROBLEM_TYPE)
