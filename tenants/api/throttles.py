"""How often one may ask: per key or user, and per firm. Counted in the database's cache table."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.throttling import SimpleRateThrottle

from tenants.api.keys import Credential


class CallerThrottle(SimpleRateThrottle):
    """Bounds each API key, and each signed-in user."""

    scope = "caller"

    def get_cache_key(self, request: Request, view: Any) -> str:
        """Name the counter of the key or user."""
        auth = request.auth
        ident = f"key:{auth.key_id}" if isinstance(auth, Credential) else f"user:{request.user.pk}"
        return self.cache_format % {"scope": self.scope, "ident": ident}


class FirmThrottle(SimpleRateThrottle):
    """Bounds a firm, over all its keys and members.

    Somebody who sees several firms is bounded as a caller alone.
    """

    scope = "firm"

    def get_cache_key(self, request: Request, view: Any) -> str | None:
        """Name the counter of the firm."""
        firm_id: int | None = view.access.only_firm_id
        if firm_id is None:
            return None
        return self.cache_format % {"scope": self.scope, "ident": firm_id}
