"""Content-Security-Policy: what a browser may load and do on each kind of page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from django.conf import settings
from django.http import HttpRequest, HttpResponseBase

GetResponse = Callable[[HttpRequest], HttpResponseBase]

# For answers that are no pages: JSON, metrics, redirects.
NOTHING: Final = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
# The exceptions, each with what needs it:
# script 'unsafe-inline', 'unsafe-eval': the admin's theme is built on Alpine, which evaluates
# attributes, and sets its colours by inline scripts; the API's documentation starts by one.
# style 'unsafe-inline': the theme's and its charts' style attributes.
# img and font data: the theme's and Swagger's icons.
# frame 'self': a mail's HTML, which comes with a policy of its own.
# form-action https: Google's consent page, and sign-on at a provider of one's own.
PAGES: Final = (
    "default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self' data:; "
    "connect-src 'self'; frame-src 'self'; base-uri 'none'; frame-ancestors 'none'; form-action 'self' https:"
)


class ContentPolicyMiddleware:
    """Sets the policy of every answer that has none of its own."""

    def __init__(self, get_response: GetResponse) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        """Answer the request."""
        response = self.get_response(request)
        is_page = response.get("Content-Type", "").startswith("text/html")
        policy = _of_pages() if is_page else NOTHING
        response.headers.setdefault("Content-Security-Policy", policy)
        return response


def _of_pages() -> str:
    # In development Google's consent page may be on this machine, without https.
    base = settings.GOOGLE_OAUTH_BASE or settings.GMAIL_API_BASE
    return f"{PAGES} {base}" if base.startswith("http:") else PAGES
