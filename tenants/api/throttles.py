"""How often one may ask in a minute: per key or user, per firm, and per address when refused."""

from __future__ import annotations

from typing import Any, ClassVar

from django.http import HttpRequest
from rest_framework.exceptions import APIException, Throttled
from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from interfaces.client_address import address_of
from tenants.api.keys import Credential
from tenants.request_counts import Count, count_request

REFUSALS_PER_MINUTE = 600


class MinuteThrottle(BaseThrottle):
    """Bounds how often somebody asks in each minute."""

    per_minute: ClassVar[int]
    _count: Count

    def caller(self, request: Request, view: Any) -> str | None:
        """Name who is bounded; None for nobody."""
        raise NotImplementedError

    def allow_request(self, request: Request, view: Any) -> bool:
        """Count the request, and say whether it is one of those allowed."""
        caller = self.caller(request, view)
        if caller is None:
            return True
        self._count = count_request(caller)
        return self._count.asked <= self.per_minute

    def wait(self) -> float:
        """Return the seconds until the next minute."""
        return self._count.seconds_left


class CallerThrottle(MinuteThrottle):
    """Bounds each API key, and each signed-in user."""

    per_minute = 600

    def caller(self, request: Request, view: Any) -> str:
        """Name the key or the user."""
        auth = request.auth
        return f"key:{auth.key_id}" if isinstance(auth, Credential) else f"user:{request.user.pk}"


class FirmThrottle(MinuteThrottle):
    """Bounds a firm, over all its keys and members.

    Somebody who sees several firms is bounded as a caller alone.
    """

    per_minute = 3000

    def caller(self, request: Request, view: Any) -> str | None:
        """Name the firm."""
        firm_id: int | None = view.access.only_firm_id
        return None if firm_id is None else f"firm:{firm_id}"


def refused_too_often(request: HttpRequest) -> APIException | None:
    """Count a request without a valid key or session; return the answer to one too many."""
    count = count_request(f"refused:{address_of(request)}")
    return Throttled(count.seconds_left) if count.asked > REFUSALS_PER_MINUTE else None
