"""Serves a mail's HTML for the sandboxed frame on its page: sanitized, with its own policy."""

from __future__ import annotations

from typing import Final

from django.http import HttpResponse
from django.template.loader import render_to_string

from mail.text.html_tokens import Tag, tokens
from mail.text.sanitize import sanitize_html

# Links open outside the frame; nothing else leaves it, and no script or form in it works.
POLICY: Final = (
    "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; "
    "style-src 'unsafe-inline'; img-src {images}; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)


def has_remote_images(html: str) -> bool:
    """Say whether the mail has remote images; fetching them tells the sender that it is read."""
    # Tokens are read in one pass, because a regular expression may take hours on unclosed tags.
    return any(
        isinstance(token, Tag)
        and token.name == "img"
        and token.attributes().get("src", "").strip().lower().startswith("https:")
        for token in tokens(html)
    )


def html_answer(html: str, *, remote_images: bool) -> HttpResponse:
    """Return the mail's HTML as a page; without `remote_images` it loads nothing from elsewhere."""
    body = sanitize_html(html, remote_images=remote_images)
    answer = HttpResponse(render_to_string("admin/mail/message/html.html", {"body": body}))
    images = "data: https:" if remote_images else "data:"
    answer.headers["Content-Security-Policy"] = POLICY.format(images=images)
    answer.headers["X-Frame-Options"] = "SAMEORIGIN"
    answer.headers["Referrer-Policy"] = "no-referrer"
    answer.headers["Cache-Control"] = "private, no-store"
    return answer
