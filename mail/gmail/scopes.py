"""What Mailroom asks Google for, and why: the fewest scopes that do the work."""

from __future__ import annotations

from typing import Final

REQUIRED_SCOPES: Final[dict[str, str]] = {
    "https://www.googleapis.com/auth/gmail.modify": (
        "Read mail and its changes, put labels on it, archive it, move it to the trash and back, "
        "write drafts and send what you approve, and read the addresses you write from. It cannot "
        "delete mail for good, nor change Gmail's settings."
    ),
}
"""Each scope, with what Mailroom does with it."""

FULL_SCOPE: Final = "https://mail.google.com/"
"""The scope that deleting for good needs. Mailroom does not ask for it, but may be granted it."""
