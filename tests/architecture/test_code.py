"""The shape of the code: sizes, imports, and what is done in one place only."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

from tests.architecture.tree import PACKAGES, ROOT, code_lines, functions, parsed, place, sources
from tests.long import KEPT, long_tests, name_of

LONGEST_FILE = 300
# How many modules and packages `jobs/` may contain.
MOST_ENTRIES = 23
# Entries of a folder that contain no code.
DATA = {"__init__.py", "__pycache__", "py.typed", "templates"}
LONGEST_FUNCTION = 50

# Who reads the environment, and why.
READERS_OF_THE_ENVIRONMENT = {
    "config/env.py": "the one reader",
    "config/asgi.py": "names the settings module for Django",
    "config/wsgi.py": "names the settings module for Django",
    "tenants/management/commands/create_user.py": "the caller names the variable",
}


def test_imports_run_one_way():
    checker = Path(sys.executable).with_name("lint-imports")
    checked = subprocess.run(
        [checker, "--no-cache"], cwd=ROOT, capture_output=True, text=True, timeout=300
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert "0 broken" in checked.stdout


def test_what_make_runs_by_hand_can_be_imported_before_django_is_set_up():
    commands = set(re.findall(r"-m (tests\.[a-z_.]+)", (ROOT / "Makefile").read_text("utf-8")))
    assert {"tests.soak.api", "tests.soak.queue", "tests.benchmarks.pages"} <= commands
    imports = "; ".join(f"import {name}" for name in sorted(commands))
    found = subprocess.run(
        [sys.executable, "-c", imports], cwd=ROOT, capture_output=True, text=True, timeout=120
    )
    assert found.returncode == 0, found.stderr


def test_no_module_imports_itself_in_a_circle():
    graph = grimp.build_graph(*PACKAGES, exclude_type_checking_imports=True, cache_dir=None)
    imported = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    assert len(imported) > 100
    try:
        TopologicalSorter(imported).prepare()
    except CycleError as error:
        # The modules of the cycle: each is imported by the next one, and the last is the first
        # again.
        pytest.fail(" <- ".join(error.args[1]))


def test_the_queue_stays_a_folder_that_is_taken_in_at_a_glance():
    entries = {path.name for path in (ROOT / "jobs").iterdir()} - DATA
    assert len(entries) <= MOST_ENTRIES, sorted(entries)


def test_files_and_functions_stay_small():
    assert len(sources()) > 100
    files = {
        place(path): lines
        for path in sources()
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > LONGEST_FILE
    }
    assert files == {}
    too_long = {
        place(path, function): lines
        for path in sources()
        for function in functions(path)
        if (lines := code_lines(function)) > LONGEST_FUNCTION
    }
    assert too_long == {}


def test_one_module_reads_the_environment():
    readers = {
        place(path)
        for path in sources(migrations=True)
        for node in ast.walk(parsed(path))
        if (isinstance(node, ast.Attribute) and node.attr in ("environ", "getenv", "environb"))
        or (
            isinstance(node, ast.ImportFrom)
            and node.module == "os"
            and {"environ", "getenv"} & {name.name for name in node.names}
        )
    }
    assert readers <= set(READERS_OF_THE_ENVIRONMENT), readers


def test_imports_are_absolute():
    relative = [
        place(path, node)
        for path in sources(migrations=True)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.ImportFrom) and node.level
    ]
    assert relative == []


def test_nothing_is_printed():
    printed = [
        place(path, node)
        for path in sources(migrations=True)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in ("print", "pprint", "breakpoint")
    ]
    assert printed == []


def test_every_module_says_what_it_owns_and_promises_late_annotations():
    silent = [
        place(path)
        for path in sources()
        if path.read_text(encoding="utf-8").strip() and not ast.get_docstring(parsed(path))
    ]
    assert silent == []
    eager = [
        place(path)
        for path in sources()
        if path.name != "__init__.py"
        and not any(
            isinstance(node, ast.ImportFrom) and node.module == "__future__"
            for node in parsed(path).body
        )
    ]
    assert eager == []


def test_a_lock_of_rows_lets_others_refer_to_them():
    """A plain `FOR UPDATE` also blocks inserts of rows that refer to the row; that can deadlock."""
    # The deletion of a firm or a user must block such inserts, so it alone uses a plain lock.
    deleted = {"jobs/operations/deletion_steps.py": 1}
    stricter: Counter[str] = Counter()
    locks = 0
    for path in sources():
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Attribute) and node.attr == "select_for_update":
                locks += 1
                stricter[place(path)] += 1
            elif isinstance(node, ast.keyword) and node.arg == "no_key":
                stricter[place(path)] -= ast.unparse(node.value) == "True"
    assert locks > 30
    assert +stricter == deleted


# A job's status is set by the engine and the operations only; benchmarks may set that of their own
# jobs.
@pytest.mark.req("T-05")
@pytest.mark.parametrize("door", ["jobs/admin", "jobs/management", "jobs/api"])
def test_doors_never_set_a_status(door: str):
    writes = [
        place(path, node)
        for path in sources()
        if place(path).startswith(door + "/")
        and place(path) != "jobs/management/benchmarks/rows.py"
        for node in ast.walk(parsed(path))
        if (isinstance(node, ast.Assign) and _sets_status(node.targets))
        or (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in ("update", "bulk_update")
            and any(keyword.arg == "status" for keyword in node.keywords)
        )
    ]
    assert (ROOT / door).is_dir()
    assert writes == []


def _sets_status(targets: list[ast.expr]) -> bool:
    return any(isinstance(one, ast.Attribute) and one.attr == "status" for one in targets)


def test_the_long_tests_and_those_that_are_kept_are_there():
    there = {
        f"{'.'.join(path.relative_to(ROOT).with_suffix('').parts)}.{node.name}"
        for path in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    long = long_tests()
    assert long - there == set()
    functions_of = [{name.rpartition(".")[2] for name in names} for names in (there, long)]
    assert functions_of[0] >= KEPT
    assert not functions_of[1] & KEPT


def test_a_test_is_long_with_all_its_parameters():
    assert (
        name_of("tests/faults/test_kills.py::test_x[a::b.py]") == "tests.faults.test_kills.test_x"
    )
    assert name_of("tests/jobs/test_y.py::Machine::runTest") == "tests.jobs.test_y.Machine.runTest"
