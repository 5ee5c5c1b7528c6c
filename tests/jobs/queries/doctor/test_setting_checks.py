"""What `manage.py check`, and each worker before it starts, says of the settings."""

from __future__ import annotations

import re
import sys
import zoneinfo
from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.management import call_command
from django.core.management.base import SystemCheckError
from django.db import connection

from jobs.queries.doctor.setting_checks import COUNTS, SCOPE_MIDDLEWARE, SECONDS, check_middleware
from tenants.key_ring import new_key

pytestmark = pytest.mark.req("O-04")


def said() -> dict[str, str]:
    """Return the texts of the checks that a starting worker runs, by id."""
    return {str(one.id): str(one.msg) for one in run_checks(tags=["jobs"])}


def test_nothing_is_said_of_the_projects_own_settings() -> None:
    assert said() == {}


@pytest.mark.parametrize("name", [*SECONDS, *COUNTS])
@pytest.mark.parametrize("value", [0, -1, "abc", None, True, float("inf"), float("nan")])
def test_a_number_of_no_use_is_named(settings: Any, name: str, value: object) -> None:
    setattr(settings, name, value)
    told = said()["jobs.E007"]
    assert told.startswith(f"{name} must be a ")
    assert told.endswith(f"; it is {value!r}.")


@pytest.mark.parametrize("name", [*SECONDS, *COUNTS])
@pytest.mark.parametrize("value", [10**12, "1000000000000"])
def test_a_number_that_leaves_the_calendar_is_named(
    settings: Any, name: str, value: object
) -> None:
    setattr(settings, name, value)
    assert re.fullmatch(rf"{name} must be at most [\d,]+; it is {value!r}\.", said()["jobs.E007"])


@pytest.mark.parametrize(
    ("name", "value", "least"),
    [
        ("JOB_LEASE_SECONDS", 1e-9, "0.5"),
        ("JOB_LEASE_SECONDS", "0.4", "0.5"),
        ("JOB_POLL_SECONDS", 1e-9, "0.01"),
        ("JOB_ISOLATED_MEMORY_MB", 1, "256"),
    ],
)
def test_a_number_too_small_to_work_with_is_named(
    settings: Any, name: str, value: object, least: str
) -> None:
    setattr(settings, name, value)
    assert said() == {"jobs.E007": f"{name} must be at least {least}; it is {value!r}."}


@pytest.mark.parametrize("value", [0.5, "0.5", 30])
def test_seconds_may_be_a_fraction_or_the_text_of_a_number(settings: Any, value: object) -> None:
    settings.JOB_POLL_SECONDS = value
    assert said() == {}


def test_a_count_is_whole(settings: Any) -> None:
    settings.JOB_RETENTION_DAYS = "7"
    assert said() == {}
    settings.JOB_RETENTION_DAYS = 7.5
    assert said()["jobs.E007"] == "JOB_RETENTION_DAYS must be a whole number from 1; it is 7.5."


@pytest.mark.parametrize("value", [-1, "two", 1.5, None])
def test_a_wrong_number_of_proxies_is_named(settings: Any, value: object) -> None:
    settings.TRUSTED_PROXIES = value
    told = f"TRUSTED_PROXIES must be a whole number from 0; it is {value!r}."
    assert said() == {"jobs.E007": told}


@pytest.mark.parametrize("value", [0, "0", 2, "2"])
def test_none_or_some_proxies_are_right(settings: Any, value: object) -> None:
    settings.TRUSTED_PROXIES = value
    assert said() == {}


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ([new_key(), "a-secret"], "key 2 is not 32 bytes in base64."),
        ("a-secret", "must be a list of texts."),
        ([b"a-secret"], "must be a list of texts."),
    ],
)
def test_keys_that_are_none_are_named_and_not_shown(
    settings: Any, value: object, told: str
) -> None:
    settings.FIELD_ENCRYPTION_KEYS = value
    assert said()["jobs.E007"].endswith(told)
    assert "a-secret" not in str(run_checks(tags=["jobs"]))


def test_an_address_to_listen_at_that_is_none_is_named_and_not_shown(settings: Any) -> None:
    for right in ("", "off", "postgresql://user:a-secret@db/name"):
        settings.LISTEN_DATABASE_URL = right
        assert said() == {}
    settings.LISTEN_DATABASE_URL = "a-secret"
    expected = {"jobs.E007": "LISTEN_DATABASE_URL is not the address of a PostgreSQL server."}
    assert said() == (expected if connection.vendor == "postgresql" else {})
    assert "a-secret" not in str(run_checks(tags=["jobs"]))


def test_times_without_a_zone_are_refused(settings: Any) -> None:
    settings.USE_TZ = False
    assert said() == {"jobs.E006": "The queue needs times with a zone: USE_TZ is False."}


@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York"])
def test_the_texts_of_sqlite_are_times_in_utc(
    monkeypatch: pytest.MonkeyPatch, zone: str | None
) -> None:
    monkeypatch.setitem(connection.settings_dict, "TIME_ZONE", zone)
    # PostgreSQL stores instants, so any zone is right there.
    is_wrong = connection.vendor == "sqlite" and zone == "America/New_York"
    told = "On SQLite the queue keeps times in UTC: the default database's TIME_ZONE is 'America/New_York'."
    assert said() == ({"jobs.E006": told} if is_wrong else {})


def test_a_machine_without_time_zones_is_told_what_it_lacks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "tzdata", None)
    before = zoneinfo.TZPATH
    zoneinfo.reset_tzpath(to=[])
    zoneinfo.ZoneInfo.clear_cache()
    try:
        told = said()
    finally:
        zoneinfo.reset_tzpath(to=before)
        zoneinfo.ZoneInfo.clear_cache()
    assert told == {
        "jobs.E006": "The queue needs the time zone database, but this machine has none, not even UTC."
    }
    assert said() == {}


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("no_such_module.timed", "No module named 'no_such_module'"),
        ("jobs.execution.hooks.nope", 'does not define a "nope" attribute'),
    ],
)
def test_a_hook_that_cannot_be_imported_is_named(settings: Any, path: str, fault: str) -> None:
    settings.JOB_ATTEMPT_HOOKS = ["jobs.execution.sentry.report_failure", path]
    told = said()["jobs.E008"]
    assert told.startswith(f"JOB_ATTEMPT_HOOKS names '{path}', which cannot be imported: ")
    assert fault in told


def test_hooks_are_a_list(settings: Any) -> None:
    settings.JOB_ATTEMPT_HOOKS = "shop.monitor.timed"
    assert said() == {
        "jobs.E007": "JOB_ATTEMPT_HOOKS must be a list of paths; it is 'shop.monitor.timed'."
    }


def test_a_worker_does_not_start_with_such_a_setting(settings: Any) -> None:
    settings.WORKER_CONCURRENCY = 0
    with pytest.raises(SystemCheckError, match="WORKER_CONCURRENCY must be a whole number from 1"):
        call_command("runworker", burst=True, skip_checks=False)


def test_pages_without_the_scope_of_the_user_are_an_error(settings: Any) -> None:
    assert check_middleware() == []
    settings.MIDDLEWARE = [one for one in settings.MIDDLEWARE if one != SCOPE_MIDDLEWARE]
    [error] = check_middleware()
    assert error.id == "jobs.E005"
    assert SCOPE_MIDDLEWARE in str(error.hint)
    settings.INSTALLED_APPS = [one for one in settings.INSTALLED_APPS if "unfold" not in one]
    assert check_middleware() == []


class Elsewhere:
    """Routes the tables of these apps to a second database."""

    def __init__(self, *apps: str, reads_only: bool = False) -> None:
        self.apps = apps
        self.reads_only = reads_only

    def db_for_read(self, model: type[Any], **_: Any) -> str | None:
        """Return the database of these apps' rows."""
        return "second" if model._meta.app_label in self.apps else None

    def db_for_write(self, model: type[Any], **_: Any) -> str | None:
        """Return the same, or no opinion if a replica is read."""
        return None if self.reads_only else self.db_for_read(model)


class ByTheOwner:
    """Makes all tables by another connection, as the role that owns them."""

    def allow_migrate(self, db: str, *_: Any, **__: Any) -> bool:
        """Refuse other connections."""
        return db == "owner"


@pytest.mark.req("A-01")
@pytest.mark.parametrize(
    ("router", "app"),
    [(Elsewhere("jobs"), "jobs"), (Elsewhere("tenants"), "tenants")],
    ids=["jobs", "tenants"],
)
def test_a_router_that_takes_the_queues_tables_away_is_named(
    settings: Any, router: object, app: str
) -> None:
    settings.DATABASE_ROUTERS = [router]
    (fault,) = [one for one in run_checks(tags=["jobs"]) if one.id == "jobs.E009"]
    assert f"a router sends its tables elsewhere: {app}." in fault.msg
    assert "tenants and jobs to the default database" in str(fault.hint)


@pytest.mark.parametrize(
    "router",
    [Elsewhere("mail"), Elsewhere("jobs", "tenants", reads_only=True), ByTheOwner()],
    ids=["of other apps", "of a replica", "of migrations"],
)
def test_a_router_that_moves_none_of_the_queues_rows_is_left_alone(
    settings: Any, router: object
) -> None:
    settings.DATABASE_ROUTERS = [router]
    assert said() == {}
