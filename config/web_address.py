"""An address on the web that the environment names."""

from __future__ import annotations

from urllib.parse import urlsplit

LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


def parse_web_address(text: str) -> str:
    """Return the address without its last slash.

    Plain http is allowed only for this machine, because tokens are sent to the address.

    Raises:
        ValueError: the address cannot be used.
    """
    address = text.rstrip("/")
    parts = urlsplit(address)
    if address and (parts.scheme not in ("http", "https") or not parts.hostname):
        raise ValueError("must start with https:// and name a host")
    if parts.scheme == "http" and parts.hostname not in LOOPBACK_NAMES:
        raise ValueError("must start with https://, save for an address of loopback")
    return address
