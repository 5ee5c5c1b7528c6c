"""What `manage.py check` says of the settings of a project's database."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from jobs.queries.doctor import system_checks

SQLITE = "django.db.backends.sqlite3"
POSTGRESQL = "django.db.backends.postgresql"
IMMEDIATE = {
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    "init_command": "PRAGMA journal_mode=WAL;",
}
PREPARED = {"prepare_threshold": 3}
KEPT = {"CONN_MAX_AGE": None, "OPTIONS": PREPARED}


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that returns the texts of the checks of these settings, by id."""

    def look(**database: Any) -> dict[str, str]:
        settings = SimpleNamespace(DATABASES={"default": database})
        monkeypatch.setattr(system_checks, "settings", settings)
        found = list(system_checks._database())
        return {str(one.id): f"{one.msg}\n{one.hint}" for one in found}

    return look


@pytest.mark.parametrize(
    "database",
    [
        {"ENGINE": SQLITE, "OPTIONS": IMMEDIATE},
        {"ENGINE": POSTGRESQL, "CONN_MAX_AGE": 600, "OPTIONS": PREPARED},
        {"ENGINE": POSTGRESQL, "OPTIONS": {"pool": True, "prepare_threshold": None}},
        {"ENGINE": "django_prometheus.db.backends.postgresql", **KEPT},
    ],
)
def test_nothing_is_said_of_a_database_that_is_set_up(said: Any, database: dict[str, Any]) -> None:
    assert said(**database) == {}


def test_connections_that_are_closed_after_use_are_named(said: Any) -> None:
    ((name, text),) = said(ENGINE=POSTGRESQL, CONN_MAX_AGE=0, OPTIONS=PREPARED).items()
    assert name == "jobs.W002"
    assert "50 times slower" in text
    assert '"CONN_MAX_AGE": None, "CONN_HEALTH_CHECKS": True' in text


def test_statements_that_are_planned_each_time_are_named(said: Any, settings: Any) -> None:
    settings.LISTEN_DATABASE_URL = ""
    ((name, text),) = said(ENGINE=POSTGRESQL, CONN_MAX_AGE=None).items()
    assert name == "jobs.W003"
    assert "five times as long" in text
    assert '["prepare_threshold"] = 3' in text
    # With a separate address for LISTEN the database may be a pooler, which forgets prepared ones.
    settings.LISTEN_DATABASE_URL = "postgres://direct/mailroom"
    assert said(ENGINE=POSTGRESQL, CONN_MAX_AGE=None) == {}


@pytest.mark.parametrize(
    ("fault", "named"),
    [
        ({"transaction_mode": "DEFERRED"}, "do not begin IMMEDIATE"),
        ({"timeout": 1}, "the timeout is short"),
        ({"init_command": ""}, "no write-ahead log"),
    ],
)
def test_options_that_lock_sqlite_are_named(said: Any, fault: dict[str, Any], named: str) -> None:
    ((name, text),) = said(ENGINE=SQLITE, OPTIONS=IMMEDIATE | fault).items()
    assert name == "jobs.W001"
    assert named in text


def test_sqlite_on_a_network_file_system_is_an_error(
    said: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system_checks, "file_system_of", lambda path: "nfs4")
    found = said(ENGINE=SQLITE, OPTIONS=IMMEDIATE)
    assert list(found) == ["jobs.E002"]
    assert "nfs4" in found["jobs.E002"]


def test_another_database_is_an_error(said: Any) -> None:
    found = said(ENGINE="django.db.backends.mysql")
    assert list(found) == ["jobs.E001"]
    assert "django.db.backends.mysql" in found["jobs.E001"]
