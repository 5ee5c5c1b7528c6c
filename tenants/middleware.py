"""The tenant scope of web requests."""

from __future__ import annotations

from django.db import transaction
from django.http import HttpRequest, HttpResponseBase

from interfaces.api import API_PREFIX
from interfaces.middleware import GetResponse
from tenants.access import access_of

# Views below these open their scope themselves: after authentication, or between network calls.
SELF_SCOPED = (API_PREFIX, "/oauth/", "/webhooks/", "/approvals/")


class FirmScopeMiddleware:
    """Runs a signed-in user's request in one transaction, in the scope of the user's firms."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer the request in the scope of its user; an error rolls everything back."""
        if request.path_info.startswith(SELF_SCOPED) or not request.user.is_authenticated:
            return self.get_response(request)
        with access_of(request.user).scope():
            response = self.get_response(request)
            if response.status_code >= 500:
                transaction.set_rollback(True)
            return response
