"""Checks of the web process before it serves requests."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from importlib import import_module

import structlog
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import Error, connection

from tenants.rls import require_rls

_log = structlog.get_logger("tenants")


def load_pages() -> None:
    """Load every page and endpoint now, so that broken code keeps the process from starting."""
    import_module(settings.ROOT_URLCONF)


def check_rls() -> None:
    """Log faults of row level security; with REQUIRE_RLS, refuse to start.

    Raises:
        ImproperlyConfigured: REQUIRE_RLS is set, and there is a fault or the database is away.
    """
    # In a thread of its own, because ASGI servers load the application inside their event loop.
    with ThreadPoolExecutor(1) as executor:
        executor.submit(_check).result()


def _check() -> None:
    try:
        require_rls()
    except Error as error:
        if settings.REQUIRE_RLS:
            raise ImproperlyConfigured(
                "REQUIRE_RLS is set, but the database does not answer, so row level security is unchecked"
            ) from error
        # The process serves requests once the database is back; until then /readyz reports it.
        _log.warning("tenants.rls_unchecked", error=type(error).__name__)
    finally:
        # Servers may fork after loading the application, and processes cannot share a connection.
        connection.close()
