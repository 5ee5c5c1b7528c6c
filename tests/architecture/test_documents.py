"""The documents agree with the code."""

from __future__ import annotations

import ast
import re
import tomllib

import pytest

from jobs import VERSION
from mail.labels import LABEL_NAMES
from mail.llm.base import Category
from mail.models import ActionStatus, ActionType
from tests.architecture.tree import ROOT, parsed
from tests.requirements import DOCUMENT, rendered

READERS = ("_read", "_choice", "_positive", "_count", "_truth")


def variables() -> set[str]:
    """Return the name of every environment variable the service reads."""
    return {
        argument.value
        for name in ("env.py", "llm.py")
        for node in ast.walk(parsed(ROOT / "config" / name))
        if isinstance(node, ast.Call)
        for argument in node.args
        if isinstance(argument, ast.Constant)
        and isinstance(argument.value, str)
        and re.fullmatch(r"[A-Z][A-Z0-9]*(_[A-Z0-9]+)*", argument.value)
        and isinstance(node.func, ast.Name)
        and (node.func.id.startswith("_") or node.func.id in ("partial", "text"))
    } - {"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"} | {"DEBUG"}


@pytest.mark.req("E-01")
@pytest.mark.parametrize("document", [".env.example", "docs/operations.md"])
def test_every_environment_variable_is_documented(document: str):
    text = (ROOT / document).read_text(encoding="utf-8")
    assert "SECRET_KEY" in variables()
    missing = {name for name in variables() if not re.search(rf"\b{name}\b", text)}
    assert missing == set()


def test_the_table_of_requirements_is_up_to_date():
    written = DOCUMENT.read_text(encoding="utf-8")
    assert written == rendered(), "run `python -m tests.requirements`"


def test_every_fault_names_tests_that_are_there_and_every_test_of_faults_is_named():
    named = set(
        re.findall(r"`(tests/[\w/]+\.py)`", (ROOT / "docs" / "faults.md").read_text("utf-8"))
    )
    assert {name for name in named if not (ROOT / name).is_file()} == set()
    there = {f"tests/faults/{path.name}" for path in (ROOT / "tests/faults").glob("test_*.py")}
    assert there - named == set()


def test_every_word_of_the_glossary_stands_there_once_and_names_a_file_that_is_there():
    rows = re.findall(
        r"^\| ([^|]+) \| [^|]+ \| `([^`|]+)` \|$",
        (ROOT / "docs" / "glossary.md").read_text("utf-8"),
        re.MULTILINE,
    )
    words = [word for word, _ in rows]
    assert len(words) > 80
    assert {word for word in words if words.count(word) > 1} == set()
    assert {file for _, file in rows if not (ROOT / file).is_file()} == set()


@pytest.mark.req("M-15")
def test_every_action_and_each_of_its_states_is_documented():
    page = (ROOT / "docs" / "actions.md").read_text("utf-8")
    named = set(
        re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`[^|]+) \|", page, re.MULTILINE)))
    )
    assert named == {*ActionType.values} - {ActionType.UNDO}
    states = page.partition("## States")[2].partition("##")[0]
    assert {one for one in ActionStatus.values if not re.search(rf"\b{one}\b", states)} == set()


@pytest.mark.req("M-09")
def test_every_category_of_mail_is_documented_with_its_label():
    page = (ROOT / "docs" / "deciding.md").read_text("utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \|.*\| `([^`]+)`[^|]*\|$", page, re.MULTILINE))
    assert rows == {one.value: LABEL_NAMES[one.label] for one in Category}


def test_the_version_that_workers_tell_is_the_packages():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == VERSION
