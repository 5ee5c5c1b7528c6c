"""Fixtures and options for all tests."""

from __future__ import annotations

import gc
import os
import signal
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from tests.long import has_none, long_tests, name_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from pathlib import Path

    from jobs.registry import JobType
    from tenants.models import Firm

# The fixtures of tests that start real workers.
pytest_plugins = ["tests.support.fixtures"]

# A test with one of these fixtures depends on the database on which the suite runs.
DATABASE_FIXTURES = {"db", "transactional_db", "django_db_setup", "live_server", "own_server"}

# Collections are rarer than by default, because tests make many objects and few cycles.
GC_THRESHOLDS = (10_000, 20, 20)

# Continuous integration uses the same examples, order and chance each time, so that only a change
# can make it fail; every other run looks for new examples.
IN_CI = "CI" in os.environ
CI_SEED = 1

if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
    # Under nohup, every worker that a test starts would inherit that SIGHUP is ignored, and would
    # not end when its terminal goes away. The default action would end this process in spite of
    # nohup.
    signal.signal(signal.SIGHUP, lambda *_: None)

# Machines differ in speed, and a slow example proves nothing.
settings.register_profile("suite", deadline=None, print_blob=True, derandomize=IN_CI)
settings.register_profile(
    "soak", settings.get_profile("suite"), max_examples=5_000, stateful_step_count=100
)
settings.load_profile("suite")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options with which the Makefile runs parts of the suite."""
    parser.addoption(
        "--chaos",
        action="store_true",
        help="only the tests that have a long form, at length: more jobs, more kills",
    )
    parser.addoption(
        "--database-only",
        action="store_true",
        help="without the tests that never use the suite's database",
    )
    lengths = parser.getgroup("length of the tests")
    lengths.addoption("--short", action="store_true", help="without the tests of tests/long.txt")
    lengths.addoption("--long", action="store_true", help="the tests of tests/long.txt alone")


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give pytest-randomly the seed of continuous integration if no other is given."""
    if IN_CI and config.getoption("randomly_seed", None) == "default":
        config.option.randomly_seed = CI_SEED


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import a file without wanted tests, because the fuzzer's alone takes three seconds."""
    short, long = config.getoption("--short"), config.getoption("--long")
    if short == long or not fnmatch(collection_path.name, "test_*.py"):
        return None
    return has_none(collection_path, long=long) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests that the options exclude."""
    if config.getoption("--chaos"):
        _keep(items, config, lambda item: bool({"chaos", "seed"} & _fixtures(item)))
    if config.getoption("--database-only"):
        _keep(items, config, _uses_database)
    if config.getoption("--short") or config.getoption("--long"):
        long, wanted = long_tests(), bool(config.getoption("--long"))
        _keep(items, config, lambda item: (name_of(item.nodeid) in long) is wanted)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keep modules and collected tests from garbage collection, because they live on to the end."""
    from django.contrib import admin

    gc.disable()
    try:
        # Tests of every page ask the site for its pages while they are collected.
        admin.autodiscover()
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        gc.enable()


def _keep(
    items: list[pytest.Item], config: pytest.Config, wanted: Callable[[pytest.Item], bool]
) -> None:
    config.hook.pytest_deselected(items=[item for item in items if not wanted(item)])
    items[:] = filter(wanted, items)


def _uses_database(item: pytest.Item) -> bool:
    # A test that is skipped on one database depends on the database.
    marked = item.get_closest_marker("django_db") or item.get_closest_marker("skipif")
    return marked is not None or bool(DATABASE_FIXTURES & _fixtures(item))


def _fixtures(item: pytest.Item) -> set[str]:
    return set(getattr(item, "fixturenames", ()))


@pytest.fixture
def chaos(request: pytest.FixtureRequest) -> bool:
    """Whether the run is one of `make chaos`."""
    return bool(request.config.getoption("--chaos"))


@pytest.fixture(scope="session", autouse=True)
def empty_only_used_tables() -> Iterator[None]:
    """Let tests that commit leave an empty database, without the slower `flush`."""
    from django.test import TransactionTestCase

    from tests.support.emptying import empty_used_tables

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", lambda _: empty_used_tables())
        yield


@pytest.fixture(scope="session", autouse=True)
def static_files_found_once() -> Iterator[None]:
    """Search the apps for static files once, and not for every test client."""
    from whitenoise.middleware import WhiteNoiseMiddleware

    search = WhiteNoiseMiddleware.add_files_from_finders
    found: dict[str, Any] = {}

    def add_files(middleware: WhiteNoiseMiddleware) -> None:
        if not found:
            search(middleware)
            found.update(middleware.files)
        middleware.files.update(found)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WhiteNoiseMiddleware, "add_files_from_finders", add_files)
        yield


@pytest.fixture
def system_firm(db: None) -> Firm:
    """Return the reserved firm, which a flush between tests may have removed."""
    from tenants.models import SYSTEM_SLUG, Firm

    return Firm.objects.get_or_create(slug=SYSTEM_SLUG, defaults={"name": "System"})[0]


@pytest.fixture
def firm(system_firm: Firm) -> Firm:
    """Return a firm."""
    from tests.factories.tenants import FirmFactory

    return FirmFactory(name="Acme", slug="acme")


@pytest.fixture
def other_firm(system_firm: Firm) -> Firm:
    """Return another firm, whose rows no member of the first one may see."""
    from tests.factories.tenants import FirmFactory

    return FirmFactory(name="Globex", slug="globex")


@pytest.fixture
def job_types(monkeypatch: pytest.MonkeyPatch) -> dict[str, JobType]:
    """Return the registry; the job types that the test declares are removed after it."""
    from jobs import registry

    types = dict(registry._types)
    monkeypatch.setattr(registry, "_types", types)
    return types


@pytest.fixture
def settled_database(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let workers be rescued, even if the database server was started a moment ago."""
    from jobs.engine import dialects

    monkeypatch.setattr(type(dialects.current()), "up_longer_than_sql", lambda *_: "1 = 1")
