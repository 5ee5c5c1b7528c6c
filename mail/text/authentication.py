"""Whether a mail that came by SMTP is from its From, by the server's Authentication-Results."""

from __future__ import annotations

import re
from typing import Final

from mail.text.parsed import Address, Headers

HEADER: Final = "Authentication-Results"
_MAX_CHARS: Final = 16_384
_RESULT: Final = re.compile(r"\s*(\w+)\s*=\s*(\w+)(?=\s|$)")
_PROPERTY: Final = re.compile(r"\s([\w.]+)\s*=\s*(\S+)")
# The properties that name the domain that each method has checked.
_DOMAINS: Final = {
    "dmarc": ("header.from",),
    "dkim": ("header.i", "header.d"),
    "spf": ("smtp.mailfrom",),
}


def is_forged(headers: Headers, sender: Address) -> bool:
    """Say whether the receiving server could not confirm that the mail is from its From address.

    Only the uppermost header is the receiving server's; a sender can write the others. A mail
    without one did not come by SMTP, but was put into the mailbox, by import or by IMAP.
    """
    results = headers.get(HEADER)
    if results is None:
        return False
    domain = sender.key.rpartition("@")[2]
    return not any(_vouches(one, domain) for one in _results(results))


def _results(value: str) -> list[str]:
    """Return the results without comments and quoted strings; none if one of these is not closed.

    A sender can choose the text in these: the envelope's sender, or a comment that quotes it.
    """
    kept: list[str] = []
    depth, quoted, escaped = 0, False, False
    for char in value[:_MAX_CHARS]:
        if quoted:
            escaped, quoted = char == "\\" and not escaped, escaped or char != '"'
        elif char == '"':
            quoted = True
        elif char == "(":
            depth += 1
        elif char == ")" and depth == 0:
            return []
        elif char == ")":
            depth -= 1
        elif depth == 0:
            kept.append(char)
    # The first part names the server.
    return [] if quoted or depth else "".join(kept).split(";")[1:]


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
