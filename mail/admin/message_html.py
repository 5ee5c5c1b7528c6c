"""The HTML of a mail, for the sandboxed frame on its page: made harmless, and under a policy of its own."""

from __future__ import annotations

from typing import Final

from django.http import HttpResponse
from django.template.loader import render_to_string

from mail.text.html_tokens import Tag, tokens
from mail.text.sanitize import sanitize_html

# Links open beside the admin; nothing else leaves the frame, and nothing in it acts.
POLICY: Final = (
    "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; "
    "style-src 'unsafe-inline'; img-src {images}; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)


def has_remote_images(html: str) -> bool:
    """Say whether the mail shows images that lie elsewhere: fetching them tells the sender."""
    # In one pass: a search by pattern takes hours for a mail of unclosed tags.
    return any(
        isinstance(token, Tag)
        and token.name == "img"
        and token.attributes().get("src", "").strip().lower().startswith("https:")
        for token in tokens(html)
    )


def html_answer(html: str, *, remote_images: bool) -> HttpResponse:
    """Return the mail as a page of its own; without `remote_images` it fetches nothing."""
    body = sanitize_html(html, remote_images=remote_images)
    answer = HttpResponse(render_to_string("admin/mail/message/html.html", {"body": body}))
    images = "data: https:" if remote_images else "data:"
    answer.headers["Content-Security-Policy"] = POLICY.format(images=images)
    answer.headers["X-Frame-Options"] = "SAMEORIGIN"
    answer.headers["Referrer-Policy"] = "no-referrer"
    answer.headers["Cache-Control"] = "private, no-store"
    return answer
