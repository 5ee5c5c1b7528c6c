"""The code in the documentation runs as it is printed there."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import unittest
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from jobs import queue, testing
from jobs.breaker import Breaker
from jobs.execution import events
from jobs.execution.context import JobContext
from jobs.operations.schedules import create_schedule
from jobs.queue import EnqueueSpec, enqueue, pause
from jobs.registry import JobType, Scheduled, job
from jobs.schedules import groups
from jobs.testing import drain
from tenants.models import Firm
from tests.support.paths import ROOT

pytestmark = pytest.mark.req("J-27")

# The name of a file, then its contents.
FILE = re.compile(r"\*\*`(?P<name>[\w/]+\.py)`\*\*\n\n```python\n(?P<text>.*?)```", re.DOTALL)
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.fixture
def shop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job_types: dict[str, JobType]
) -> Iterator[unittest.TestSuite]:
    """Write the tutorial's files and return the tests in them."""
    tutorial = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8")
    names = []
    for found in FILE.finditer(tutorial):
        path = tmp_path / found["name"]
        path.parent.mkdir(exist_ok=True)
        path.write_text(found["text"], encoding="utf-8")
        names.append(path.stem)
    assert names == ["invoices", "job_handlers", "orders", "tests"]
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("shop.job_handlers")
    yield unittest.defaultTestLoader.loadTestsFromName("shop.tests")
    for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
        del sys.modules[name]


@pytest.mark.req("J-05", "J-18", "J-20")
@pytest.mark.usefixtures("transactional_db", "system_firm")
def test_the_tutorials_tests_pass(shop: unittest.TestSuite) -> None:
    result = unittest.TestResult()
    shop.run(result)
    assert [trace for _, trace in (*result.errors, *result.failures)] == []
    assert result.testsRun == 5


@pytest.mark.django_db
def test_the_job_type_of_the_readme_runs(firm: Firm, job_types: dict[str, JobType]) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (declaration,) = [block for block in BLOCK.findall(readme) if "@job(" in block]
    (asking,) = [block for block in BLOCK.findall(readme) if "enqueue(" in block]
    names: dict[str, Any] = {"__name__": "readme", "firm": firm}
    exec(declaration, names)
    exec(asking, names)
    assert names["result"].created
    assert not enqueue("greet", {"name": "Ada"}, firm=firm, idempotency_key="greet:ada").created
    (job,) = drain().jobs
    assert (job.status, job.result) == ("completed", {"greeting": "Hello Ada"})


def test_everything_that_a_handler_finds_in_ctx_is_documented() -> None:
    document = (ROOT / "docs" / "handlers.md").read_text(encoding="utf-8")
    names = [name for name in dir(JobContext) if not name.startswith("_") and name != "log_lines"]
    assert [name for name in names if not re.search(rf"\bctx\.{name}\b", document)] == []


def test_every_part_of_the_kit_is_documented() -> None:
    document = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    parts = [name for name in testing.__all__ if name.islower()]
    assert len(parts) == 8
    assert [name for name in parts if f"`{name}(" not in document] == []


def run_page(page: str, **names: Any) -> dict[str, Any]:
    """Run all blocks of Python on a page, from top to bottom, in one module."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    names |= {"__name__": page.removesuffix(".md")}
    for found in BLOCK.finditer(text):
        # A traceback then has the line numbers of the page.
        before = text[: found.start(1)].count("\n")
        exec(compile("\n" * before + found[1], page, "exec"), names)
    return names


@pytest.fixture
def forgets_subscribers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Restore the subscribers and groups of other tests at the end."""
    monkeypatch.setattr(events, "_subscribers", deepcopy(events._subscribers))
    monkeypatch.setattr(groups, "_groups", dict(groups._groups))


@pytest.mark.req("J-05", "J-06", "J-07", "J-11", "J-17", "J-20", "J-21", "J-24")
@pytest.mark.usefixtures("forgets_subscribers", "system_firm", "job_types")
@pytest.mark.django_db
def test_the_reference_runs(firm: Firm) -> None:
    assert len(run_page("reference.md", firm=firm)["ends"]) == 1


@pytest.mark.usefixtures("shop", "system_firm")
@pytest.mark.django_db
def test_the_page_of_the_kit_runs(firm: Firm) -> None:
    assert run_page("testing.md", firm=firm)["sent"].result == {"characters": 23}


@pytest.mark.req("A-03")
@pytest.mark.usefixtures("system_firm", "job_types")
@pytest.mark.django_db
def test_the_guide_from_celery_can_be_followed(firm: Firm) -> None:
    assert run_page("from-celery.md", firm=firm)["receipts"] == [500]


def test_the_reference_names_everything_that_is_public() -> None:
    page = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    arguments = {
        name
        for function in (job, enqueue, EnqueueSpec, Scheduled, create_schedule, pause)
        for name in inspect.signature(function).parameters
    } - {"self", "by"}
    names = {*queue.__all__, *arguments, "Breaker", "RetryPolicy", "JobPayload", "Scheduled"}
    names |= {*inspect.signature(Breaker).parameters} | {"Retryable", "Fatal", "Snooze", "Cancel"}
    assert {name for name in names if not re.search(rf"\b{name}\b", page)} == set()
