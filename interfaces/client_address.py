"""The client's address."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address, ip_network

from django.conf import settings
from django.http import HttpRequest

# A provider's customer gets a whole /64 network and may use any address in it.
_IPV6_PREFIX = 64
_MAX_LENGTH = 45


def address_of(request: HttpRequest) -> str:
    """Return the client's address, as the outermost of the trusted proxies saw it.

    X-Forwarded-For is read from its end, where those proxies write, because the client may have
    sent anything before that. Of an IPv6 address only the network is returned.
    """
    passed = request.META.get("HTTP_X_FORWARDED_FOR", "").split(",")
    proxies = int(getattr(settings, "TRUSTED_PROXIES", 0))
    seen = passed[-proxies] if 0 < proxies <= len(passed) else ""
    return _network(seen.strip() or request.META.get("REMOTE_ADDR", ""))


def _network(text: str) -> str:
    try:
        address = ip_address(text)
    except ValueError:
        return text[:_MAX_LENGTH]
    if not isinstance(address, IPv6Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ip_network((address.packed, _IPV6_PREFIX), strict=False))
