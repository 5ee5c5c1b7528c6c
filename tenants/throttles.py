"""Request limits per minute: each key or user, each firm, each address that fails to sign in.

Requests are counted in one statement each, so the limits are exact under concurrency. DRF's
throttles on Django's database cache read and write in two statements: with 8 clients at once and
a limit of 30 a minute, 37 to 73 of 80 requests passed.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Any, ClassVar

from django.conf import settings
from django.db import connection
from django.http import HttpRequest
from rest_framework.exceptions import APIException, Throttled
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from tenants.api.keys import Credential
from tenants.models import RequestCount

REFUSALS_PER_MINUTE = 600
# Old counts are deleted after this time, a few with each first request of a minute.
KEPT_MINUTES = 60
DELETED_AT_ONCE = 100

# Seconds since 1970 by the database's clock: the clocks of web processes may differ.
_NOW = {
    "postgresql": "floor(extract(epoch FROM clock_timestamp()))::bigint",
    "sqlite": "CAST(strftime('%%s', 'now') AS integer)",
}
# Two requests around the start of a minute may be written in reverse order: the earlier then
# counts with the later. After a greater step back of the clock, counting starts over.
_COUNT = """
INSERT INTO {table} AS kept (caller, minute, asked) VALUES (%s, {now} / 60, 1)
ON CONFLICT (caller) DO UPDATE SET
    asked = CASE WHEN kept.minute - excluded.minute IN (0, 1) THEN kept.asked + 1 ELSE 1 END,
    minute = CASE WHEN kept.minute - excluded.minute IN (0, 1)
        THEN kept.minute ELSE excluded.minute END
RETURNING asked, (minute + 1) * 60 - {now}
"""
_UNCOUNT = "UPDATE {table} SET asked = asked - 1 WHERE caller = %s"
_DELETE_OLD = """
DELETE FROM {table} WHERE caller IN (
    SELECT caller FROM {table} WHERE minute < {now} / 60 - %s LIMIT %s {lock}
)
"""

# A provider's customer gets a whole /64 network and may use any address in it.
_IPV6_PREFIX = 64
_MAX_LENGTH = 45


@dataclass(frozen=True)
class Count:
    """A caller's requests in this minute, and the seconds until it ends."""

    requests: int
    seconds_left: int


def count_request(caller: str) -> Count:
    """Count one request of the caller."""
    with connection.cursor() as cursor:
        cursor.execute(_sql(_COUNT), [caller])
        requests, seconds_left = cursor.fetchone()
        if requests == 1:
            cursor.execute(_sql(_DELETE_OLD), [KEPT_MINUTES, DELETED_AT_ONCE])
    return Count(requests, max(seconds_left, 1))


def uncount_request(caller: str) -> None:
    """Take back one counted request of the caller."""
    with connection.cursor() as cursor:
        cursor.execute(_sql(_UNCOUNT), [caller])


def _sql(text: str) -> str:
    lock = "FOR UPDATE SKIP LOCKED" if connection.features.has_select_for_update else ""
    now = _NOW[connection.vendor]
    return text.format(table=RequestCount._meta.db_table, now=now, lock=lock)


class MinuteThrottle(BaseThrottle):
    """Limits a caller's requests in each minute."""

    per_minute: ClassVar[int]
    _count: Count

    def caller(self, request: Request, view: Any) -> str | None:
        """Name the caller; None means no limit."""
        raise NotImplementedError

    def allow_request(self, request: Request, view: Any) -> bool:
        """Count the request, and say whether it is within the limit."""
        caller = self.caller(request, view)
        if caller is None:
            return True
        self._count = count_request(caller)
        return self._count.requests <= self.per_minute

    def wait(self) -> float:
        """Return the seconds until the next minute."""
        return self._count.seconds_left


class CallerThrottle(MinuteThrottle):
    """Limits each API key and each signed-in user."""

    per_minute = 600

    def caller(self, request: Request, view: Any) -> str:
        """Name the key or the user."""
        auth = request.auth
        return f"key:{auth.key_id}" if isinstance(auth, Credential) else f"user:{request.user.pk}"


class FirmThrottle(MinuteThrottle):
    """Limits a firm over all its keys and members; a user of several firms counts for none."""

    per_minute = 3000

    def caller(self, request: Request, view: Any) -> str | None:
        """Name the firm."""
        firm_id: int | None = view.access.only_firm_id
        return None if firm_id is None else f"firm:{firm_id}"


def throttle_refusals(request: HttpRequest) -> APIException | None:
    """Count a request without a valid key or session; return Throttled when it is over the limit."""
    count = count_request(f"refused:{address_of(request)}")
    return Throttled(count.seconds_left) if count.requests > REFUSALS_PER_MINUTE else None


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
