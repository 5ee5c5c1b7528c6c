"""What the web process looks at before it takes requests."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import structlog
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import Error, connection

from tenants.rls import check_at_start

_log = structlog.get_logger("tenants")


def check_wall() -> None:
    """Warn of what is wrong with the second wall; where REQUIRE_RLS is set, refuse to start.

    Raises:
        ImproperlyConfigured: REQUIRE_RLS is set, and the wall has a hole or cannot be looked at.
    """
    # In a thread of its own: ASGI servers load the application inside their event loop.
    with ThreadPoolExecutor(1) as looker:
        looker.submit(_look).result()


def _look() -> None:
    try:
        check_at_start()
    except Error as error:
        if settings.REQUIRE_RLS:
            raise ImproperlyConfigured(
                "REQUIRE_RLS is set, but the database cannot be asked whether the wall holds"
            ) from error
        # Requests are answered again when the database is; until then /readyz says what it is.
        _log.warning("tenants.wall_not_looked_at", error=type(error).__name__)
    finally:
        # Servers fork once they have loaded the application; a connection cannot be shared.
        connection.close()
