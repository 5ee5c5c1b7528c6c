"""Where webhooks may go: public addresses, and the private hosts that WEBHOOK_PRIVATE_HOSTS names."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

from jobs import conf
from jobs.models.notifications import MAX_TARGET_LENGTH

PORTS = {"http": 80, "https": 443}
# A gateway translates these addresses to IPv4: the last 32 bits are the address that it reaches.
NAT64 = IPv6Network("64:ff9b::/96")
# Some or all versions of Python take these for public. In the first two, cloud providers serve a
# machine's metadata and secrets; the others are for private use, or lead to an IPv4 address.
NOT_PUBLIC = [
    ip_network(one)
    for one in (
        "192.0.0.0/24",
        "168.63.129.16/32",
        "64:ff9b:1::/48",
        "::/96",
        "::ffff:0:0:0/96",
        "5f00::/16",
        "fec0::/10",
    )
]
# A name, or an IPv4 or IPv6 address; `urlsplit` removes the brackets.
_HOST = re.compile(r"[a-z0-9._:\-]{1,253}")


class AddressRefused(Exception):
    """Nothing may be sent to this address; the text says why, for people."""


@dataclass(frozen=True)
class WebhookURL:
    """The parts of a webhook's URL that was checked for its form."""

    scheme: str
    host: str
    port: int
    # With the query.
    path: str
    # Whether the URL comes from the service's settings, not from a firm.
    trusted: bool = False

    @property
    def is_allowed_private(self) -> bool:
        """Whether the host's address may be private."""
        if self.trusted:
            return True
        name = f"[{self.host}]" if ":" in self.host else self.host
        return not conf.webhook_private_hosts().isdisjoint({name, f"{name}:{self.port}"})


def parse_url(text: str, *, trusted: bool = False) -> WebhookURL:
    """Return the parts of a webhook's URL.

    Raises:
        AddressRefused: it is no URL of a webhook, or carries credentials.
    """
    if len(text) > MAX_TARGET_LENGTH:
        raise AddressRefused(f"must have at most {MAX_TARGET_LENGTH} characters")
    if not re.fullmatch("[!-~]+", text):
        raise AddressRefused("must be ASCII without spaces: percent-encode the rest")
    try:
        parts = urlsplit(text)
        port = parts.port or PORTS.get(parts.scheme, 0)
    except ValueError:
        raise AddressRefused("is not a URL") from None
    if parts.scheme not in PORTS:
        raise AddressRefused("must start with https:// or http://")
    if "@" in parts.netloc:
        raise AddressRefused("must not contain a user or a password")
    host = parts.hostname or ""
    if not _HOST.fullmatch(host) or not _is_name(host):
        raise AddressRefused("has no host")
    path = parts.path or "/"
    path = f"{path}?{parts.query}" if parts.query else path
    return WebhookURL(parts.scheme, host, port, path, trusted)


def _is_name(host: str) -> bool:
    """Say whether DNS can have the name: no part of it is empty or longer than 63 characters."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True


def vetted_addresses(url: WebhookURL) -> list[str]:
    """Return the addresses of the URL's host, each of which may be connected to.

    Connect to one of these and not to the name, whose next lookup may give a private address.

    Raises:
        AddressRefused: one of them is not public.
        OSError: the name cannot be resolved now.
    """
    found = socket.getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))
    if not addresses:
        raise OSError(f"{url.host} has no address")
    if not url.is_allowed_private:
        for address in addresses:
            if not is_public(address):
                raise AddressRefused(f"the host {url.host!r} has an address that is not public")
    return addresses


def is_public(text: str) -> bool:
    """Say whether the address, and any IPv4 address inside it, is on the public internet."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return all(
        one.is_global and not one.is_multicast and not any(one in net for net in NOT_PUBLIC)
        for one in (address, *_inside(address))
    )


def _inside(address: IPv4Address | IPv6Address) -> list[IPv4Address]:
    """Return the IPv4 addresses that an IPv6 address leads to."""
    if isinstance(address, IPv4Address):
        return []
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in NAT64:
        found.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return [one for one in found if one is not None]
