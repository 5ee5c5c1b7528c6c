"""The code in the documents runs as it stands there."""

from __future__ import annotations

import importlib
import re
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from jobs import testing
from jobs.queue import enqueue
from jobs.registry import JobType
from jobs.testing import drain
from tenants.models import Firm
from tests.support.paths import ROOT

pytestmark = pytest.mark.req("J-27")

# A file's name, then what stands in it.
FILE = re.compile(r"\*\*`(?P<name>[\w/]+\.py)`\*\*\n\n```python\n(?P<text>.*?)```", re.DOTALL)
BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)


@pytest.fixture
def shop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, job_types: dict[str, JobType]
) -> Iterator[unittest.TestSuite]:
    """Write the tutorial's files down and return the tests among them."""
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


def test_every_part_of_the_kit_is_documented() -> None:
    document = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    parts = [name for name in testing.__all__ if name.islower()]
    assert len(parts) == 8
    assert [name for name in parts if f"`{name}(" not in document] == []
