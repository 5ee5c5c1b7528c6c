"""Checks of the values of settings, for `manage.py check` and each worker before it starts."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import psycopg
from django.apps import apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, register
from django.db import DEFAULT_DB_ALIAS, connection, router
from django.utils.module_loading import import_string
from psycopg.conninfo import conninfo_to_dict

from interfaces.moments import least_of, most_of
from jobs.conf import listen_database_url
from tenants.key_ring import KeyRing

# The tag of the checks that a worker runs before it starts.
TAG = "jobs"
SECONDS = ("JOB_LEASE_SECONDS", "JOB_POLL_SECONDS")
COUNTS = (
    "ALERT_AGE_INTERVAL_MINUTES",
    "ALERT_INTERVAL_SECONDS",
    "ALERT_QUIET_MINUTES",
    "ALERT_UNREVIEWED_HOURS",
    "JOB_ISOLATED_MEMORY_MB",
    "JOB_PURGE_INTERVAL_HOURS",
    "JOB_RETENTION_DAYS",
    "JOB_UNKNOWN_TYPE_GRACE_SECONDS",
    "WORKER_CONCURRENCY",
)
NEW_KEY = "Make a key with: manage.py rotate_keys --new-key"
SCOPE_MIDDLEWARE = "tenants.middleware.FirmScopeMiddleware"


@register(TAG)
def check_values(**_: Any) -> list[CheckMessage]:
    """Return what is wrong with the values of the queue's settings."""
    return [
        *_numbers(),
        *_proxies(),
        *_keys(),
        *_listening(),
        *_routers(),
        *_times(),
        *_zones(),
        *_hooks(),
    ]


@register()
def check_middleware(**_: Any) -> list[CheckMessage]:
    """Return an error if the scope's middleware is missing: without it admin pages show nothing."""
    has_pages = apps.is_installed("unfold") and apps.is_installed("django.contrib.admin")
    if not has_pages or SCOPE_MIDDLEWARE in settings.MIDDLEWARE:
        return []
    return [
        Error(
            "The admin's pages cannot know whose rows they may show.",
            hint=f'MIDDLEWARE += ["{SCOPE_MIDDLEWARE}"], after AuthenticationMiddleware',
            id="jobs.E005",
        )
    ]


def _proxies() -> Iterator[CheckMessage]:
    name = "TRUSTED_PROXIES"
    value = getattr(settings, name, 0)
    # 0 means no proxy. It may be a text, which is converted like the other settings.
    if value not in (0, "0") and not _is_above_zero(value, int):
        yield _wrong(name, "a whole number from 0")


def _keys() -> Iterator[CheckMessage]:
    name = "FIELD_ENCRYPTION_KEYS"
    keys = getattr(settings, name, ())
    # Nothing here may quote a key.
    if not isinstance(keys, list | tuple) or not all(isinstance(key, str) for key in keys):
        yield Error(f"{name} must be a list of texts.", hint=NEW_KEY, id="jobs.E007")
        return
    try:
        KeyRing(keys)
    except ValueError as error:
        yield Error(f"{name}: {error}.", hint=NEW_KEY, id="jobs.E007")


def _listening() -> Iterator[CheckMessage]:
    url = listen_database_url()
    if url in {"", "off"} or connection.vendor != "postgresql":
        return
    try:
        conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        # The message quotes neither the error nor the address, which may hold a password.
        yield Error(
            "LISTEN_DATABASE_URL is not the address of a PostgreSQL server.",
            hint='postgresql://user:password@host:5432/name, or "off" to only poll.',
            id="jobs.E007",
        )


def _routers() -> Iterator[CheckMessage]:
    # Reading rows for a page from a replica does no harm; the engine itself reads the default one.
    models = [
        *apps.get_app_config("tenants").get_models(),
        *apps.get_app_config("jobs").get_models(),
    ]
    # Migrations may run by another connection, as the role that owns the tables.
    away = [one._meta.label for one in models if router.db_for_write(one) != DEFAULT_DB_ALIAS]
    if away:
        yield Error(
            "The queue works in the default database, but a router sends its tables elsewhere: "
            f"{away[0]}, for one.",
            hint="Let DATABASE_ROUTERS leave the apps tenants and jobs to the default database.",
            id="jobs.E009",
        )


def _times() -> Iterator[CheckMessage]:
    if not settings.USE_TZ:
        yield Error(
            "The queue needs times with a zone: USE_TZ is False.",
            hint="USE_TZ = True",
            id="jobs.E006",
        )
    zone = connection.settings_dict["TIME_ZONE"]
    # PostgreSQL stores instants. On SQLite, Django would store texts in this zone.
    if connection.vendor == "sqlite" and zone not in (None, "UTC"):
        yield Error(
            f"On SQLite the queue keeps times in UTC: the default database's TIME_ZONE is {zone!r}.",
            hint='Leave TIME_ZONE out of DATABASES["default"]; that of the settings may be any.',
            id="jobs.E006",
        )


def _zones() -> Iterator[CheckMessage]:
    try:
        ZoneInfo("UTC")
    except ZoneInfoNotFoundError:
        yield Error(
            "The queue needs the time zone database, but this machine has none, not even UTC.",
            hint="pip install tzdata, or the system's package of that name.",
            id="jobs.E006",
        )


def _hooks() -> Iterator[CheckMessage]:
    name = "JOB_ATTEMPT_HOOKS"
    paths = getattr(settings, name, ())
    if not isinstance(paths, list | tuple):
        yield _wrong(name, "a list of paths")
        return
    for path in paths:
        try:
            import_string(path)
        except ImportError as error:
            yield Error(
                f"{name} names {path!r}, which cannot be imported: {error}.",
                hint="Without its hooks, no attempt starts.",
                id="jobs.E008",
            )


def _numbers() -> Iterator[CheckMessage]:
    for name in SECONDS:
        if not _is_above_zero(getattr(settings, name, 1), float):
            yield _wrong(name, "a number above 0")
        else:
            yield from _beyond(name, float(getattr(settings, name, 1)))
    for name in COUNTS:
        if not _is_above_zero(getattr(settings, name, 1), int):
            yield _wrong(name, "a whole number from 1")
        elif hasattr(settings, name):
            yield from _beyond(name, int(getattr(settings, name)))


def _beyond(name: str, number: float) -> Iterator[CheckMessage]:
    if number < least_of(name):
        yield _wrong(name, f"at least {least_of(name):g}")
    if number > most_of(name):
        yield _wrong(name, f"at most {most_of(name):,}")


def _is_above_zero(value: Any, convert: type[int] | type[float]) -> bool:
    """Say whether `jobs.conf`, which converts the value in this way, gets a usable number."""
    try:
        number = convert(value)
    except (TypeError, ValueError, OverflowError):
        return False
    is_changed = not isinstance(value, str) and number != value
    return 0 < number < math.inf and not is_changed and not isinstance(value, bool)


def _wrong(name: str, wanted: str) -> CheckMessage:
    return Error(f"{name} must be {wanted}; it is {getattr(settings, name)!r}.", id="jobs.E007")
