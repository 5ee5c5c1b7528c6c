"""Checks of Django's settings that the queue depends on, for `manage.py check`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.checks import CheckMessage, Error, register
from django.core.checks import Warning as CheckWarning
from django.db import DEFAULT_DB_ALIAS, models

from jobs.conf import listen_database_url

ENGINES = {"django.db.backends.sqlite3": "sqlite", "django.db.backends.postgresql": "postgresql"}
SQLITE_OPTIONS = """DATABASES["default"]["OPTIONS"] = {
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    "init_command": "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;",
}"""
LEAST_TIMEOUT_SECONDS = 5
# Network file systems: the locks of SQLite's write-ahead log work on one machine only.
NETWORK_FILE_SYSTEMS = frozenset(
    [
        "afs",
        "ceph",
        "cifs",
        "fuse.glusterfs",
        "fuse.sshfs",
        "glusterfs",
        "lustre",
        "ncpfs",
        "nfs",
        "nfs4",
        "smb3",
        "smbfs",
    ]
)
MOUNTS = Path("/proc/self/mounts")


@register()
def check_settings(**_: Any) -> list[CheckMessage]:
    """Return what is wrong with the database's settings, the apps and the users' key."""
    return [*_database(), *_apps(), *_users()]


def _database() -> Iterator[CheckMessage]:
    database = settings.DATABASES.get(DEFAULT_DB_ALIAS, {})
    engine = str(database.get("ENGINE", ""))
    # A backend that wraps Django's, such as one of a monitor, has its name at the end.
    vendor = ENGINES.get(engine) or next(
        (vendor for vendor in ("postgresql", "sqlite") if vendor in engine.rpartition(".")[2]), ""
    )
    if vendor == "sqlite":
        yield from _sqlite(database)
    elif vendor == "postgresql":
        yield from _postgresql(database)
    else:
        yield Error(
            f"The queue runs on PostgreSQL and SQLite; the default database is {engine}.",
            id="jobs.E001",
        )


def _sqlite(database: dict[str, Any]) -> Iterator[CheckMessage]:
    options = database.get("OPTIONS", {})
    faults = []
    if str(options.get("transaction_mode", "")).upper() != "IMMEDIATE":
        faults.append("transactions do not begin IMMEDIATE")
    if float(options.get("timeout", LEAST_TIMEOUT_SECONDS)) < LEAST_TIMEOUT_SECONDS:
        faults.append("the timeout is short")
    if "wal" not in str(options.get("init_command", "")).lower():
        faults.append("there is no write-ahead log")
    if faults:
        yield CheckWarning(
            (
                'With a worker running, SQLite will report "database is locked": '
                f"{', '.join(faults)}."
            ),
            hint=SQLITE_OPTIONS,
            id="jobs.W001",
        )
    file_system = file_system_of(Path(str(database.get("NAME", ""))).absolute())
    if file_system in NETWORK_FILE_SYSTEMS:
        yield Error(
            f"The SQLite file is on a network file system ({file_system}): several machines, and "
            "on some systems several processes, would destroy it.",
            hint="Keep the file on a disk of the machine, or use PostgreSQL.",
            id="jobs.E002",
        )


def file_system_of(path: Path) -> str:
    """Return the type of the file system that the file is on; "" if the machine does not say."""
    try:
        mounts = [line.split()[1:3] for line in MOUNTS.read_text().splitlines()]
    except OSError:
        return ""
    resolved = path.resolve()
    above = [
        (len(place), kind)
        for place, kind in mounts
        if resolved.is_relative_to(place.replace("\\040", " "))
    ]
    # Of several file systems mounted at one place the last hides the others.
    return max(reversed(above), key=lambda one: one[0], default=(0, ""))[1]


def _postgresql(database: dict[str, Any]) -> Iterator[CheckMessage]:
    options = database.get("OPTIONS", {})
    if database.get("CONN_MAX_AGE", 0) == 0 and not options.get("pool"):
        yield CheckWarning(
            "Every request and every chunk of jobs opens its own connection (CONN_MAX_AGE is 0), "
            "so short jobs run up to 50 times slower.",
            hint='DATABASES["default"] |= {"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": True}',
            id="jobs.W002",
        )
    # With LISTEN_DATABASE_URL this may be a pooler, which loses prepared statements.
    if "prepare_threshold" not in options and not listen_database_url():
        yield CheckWarning(
            "PostgreSQL plans the queue's statements again every time, because Django prepares "
            "none by default. An enqueue takes five times as long.",
            hint='DATABASES["default"].setdefault("OPTIONS", {})["prepare_threshold"] = 3'
            "  # None: behind a pooler",
            id="jobs.W003",
        )


def _apps() -> Iterator[CheckMessage]:
    if apps.is_installed("unfold") and not apps.is_installed("interfaces"):
        yield Error(
            "With Unfold the queue's admin pages need the templates of the app `interfaces`.",
            hint='INSTALLED_APPS += ["interfaces"]',
            id="jobs.E003",
        )


def _users() -> Iterator[CheckMessage]:
    key: Any = get_user_model()._meta.pk
    while isinstance(key, models.ForeignKey):
        key = key.target_field
    if not isinstance(key, models.IntegerField | models.UUIDField | models.CharField):
        yield Error(
            f"The queue cannot store user keys like those of {settings.AUTH_USER_MODEL}: "
            f"{type(key).__name__}.",
            hint="User keys may be whole numbers, UUIDs or strings.",
            id="jobs.E004",
        )
