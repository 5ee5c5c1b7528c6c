"""Whether a mail that came by SMTP is by whom it says: the receiving server's Authentication-Results."""

from __future__ import annotations

import re
from typing import Final

from mail.text.parsed import Address, Headers

HEADER: Final = "Authentication-Results"
_MAX_CHARS: Final = 16_384
# What strangers choose stands in these: the envelope's sender, or a comment that quotes it.
_QUOTED: Final = re.compile(r'"(?:\\.|[^"\\])*"')
_COMMENT: Final = re.compile(r"\([^()]*\)")
_OPEN: Final = frozenset('"()')
_RESULT: Final = re.compile(r"\s*(\w+)\s*=\s*(\w+)(?=\s|$)")
_PROPERTY: Final = re.compile(r"\s([\w.]+)\s*=\s*(\S+)")
# The domain that each method says something about.
_DOMAINS: Final = {
    "dmarc": ("header.from",),
    "dkim": ("header.i", "header.d"),
    "spf": ("smtp.mailfrom",),
}


def is_forged(headers: Headers, sender: Address) -> bool:
    """Say whether the receiving server could not tell that the mail is by its From.

    Only the uppermost header is the receiving server's. A mail without one came by no stranger's
    server: it was put into the mailbox, by import or by IMAP.
    """
    results = headers.get(HEADER)
    if results is None:
        return False
    domain = sender.key.rpartition("@")[2]
    return not any(_vouches(one, domain) for one in _results(results))


def _results(value: str) -> list[str]:
    text, before = _QUOTED.sub("", value[:_MAX_CHARS]), ""
    while text != before:
        text, before = _COMMENT.sub("", text), text
    if not _OPEN.isdisjoint(text):
        return []
    # The first part names the server.
    return text.split(";")[1:]


def _vouches(result: str, domain: str) -> bool:
    found = _RESULT.match(result)
    if found is None or found[2].lower() != "pass" or not domain:
        return False
    names = _DOMAINS.get(found[1].lower(), ())
    said = {name.lower(): value.lower() for name, value in _PROPERTY.findall(result)}
    return any(_is_of(said[name].rpartition("@")[2], domain) for name in names if name in said)


def _is_of(signing: str, domain: str) -> bool:
    """Say whether one of the domains is the other, or above it."""
    return bool(signing) and (
        signing == domain or domain.endswith(f".{signing}") or signing.endswith(f".{domain}")
    )
