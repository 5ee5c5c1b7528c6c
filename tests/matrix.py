"""Runs the queue's tests on each Python and Django of the matrix: `python -m tests.matrix`.

The matrix is in requirements/matrix; `--lock` pins the requirements anew. A cell is left out, and
named, if its Python is not installed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.support.paths import ROOT

LOCKS = ROOT / "requirements" / "matrix"
ENVIRONMENTS = ROOT / ".tools" / "matrix"
CELLS = ("py312-django60", "py313-django52", "py313-django61")
# The product's own environment, Python 3.11 and Django 5.2, runs the whole suite.
TESTS = (
    "tests/jobs/engine",
    "tests/jobs/testing",
    "tests/jobs/schedules",
    "tests/jobs/execution",
    "tests/jobs/operations/notifications/test_emails.py",
    "tests/jobs/worker/test_supervisor.py",
    "tests/plans/test_claim.py",
    "tests/package",
    "tests/tenants/test_isolation.py",
)
# These tasks have `max_attempts`, which the decorator of Django 6.0 does not accept.
TASKS = "tests/jobs/tasks_backend"
# Django 6 deprecates settings that the product needs with 5.2.
OPTIONS = ("-q", "-n", "2", "--timeout", "900", "-p", "no:cacheprovider")
WARNINGS = ("-W", "ignore::DeprecationWarning", "-W", "ignore::PendingDeprecationWarning")
COMPILE = [
    "-m",
    "piptools",
    "compile",
    "-q",
    "--generate-hashes",
    "--no-emit-index-url",
    "--no-emit-trusted-host",
    "--no-emit-find-links",
    "--no-header",
    "--strip-extras",
    "--allow-unsafe",
    "--no-annotate",
]


def versions(cell: str) -> tuple[str, str]:
    """Return the versions of Python and Django in the name of the cell."""
    found = re.fullmatch(r"py(\d)(\d+)-django(\d)(\d)", cell)
    assert found is not None, cell
    python, minor, django, release = found.groups()
    return f"{python}.{minor}", f"{django}.{release}"


def interpreter(version: str) -> str | None:
    """Return the path of a Python of this version, or None."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    installed = sorted(pyenv.glob(f"{version}.*/bin/python"))
    return str(installed[-1]) if installed else shutil.which(f"python{version}")


def environment(cell: str, python: str) -> Path:
    """Return the Python of the cell's virtual environment, which is created if there is none."""
    own = ENVIRONMENTS / cell / "bin" / "python"
    if not own.exists():
        subprocess.run([python, "-m", "venv", ENVIRONMENTS / cell], check=True)
    return own


def pip(python: Path, *arguments: str) -> None:
    """Install packages into the environment of the cell."""
    command = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([*command, *arguments], check=True)


def lock(cell: str, python: Path) -> None:
    """Pin the requirements of the cell: the product's with its Django, and the tests'."""
    pip(python, "pip-tools")
    _, django = versions(cell)
    runtime = (ROOT / "requirements" / "runtime.in").read_text().splitlines()
    wanted = [line for line in runtime if not line.startswith("Django")]
    wanted += [f"Django=={django}.*", (ROOT / "requirements" / "matrix.in").read_text()]
    target = LOCKS / f"{cell}.txt"
    subprocess.run(
        [python, *COMPILE, "-o", target, "-"], input="\n".join(wanted), text=True, check=True
    )


def run(python: Path, tests: Sequence[str]) -> bool:
    """Run the tests on both databases; say whether all passed."""
    command = [str(python), "-m", "pytest", *OPTIONS, *WARNINGS, *tests]
    sqlite = subprocess.run(command, cwd=ROOT, env={**os.environ, "DATABASE_URL": ""})
    server = [str(python), "-m", "tests.postgres", *command]
    postgresql = subprocess.run(server, cwd=ROOT)
    return sqlite.returncode == postgresql.returncode == 0


def main() -> int:
    """Run or pin the cells; return 1 if one of them fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lock", action="store_true", help="pin the requirements anew")
    parser.add_argument("--cell", choices=CELLS, action="append", help="this one alone")
    parser.add_argument("tests", nargs="*")
    options = parser.parse_args()
    results = {}
    for cell in options.cell or CELLS:
        python = interpreter(versions(cell)[0])
        if python is None:
            results[cell] = "not run: there is no such Python here"
            continue
        own = environment(cell, python)
        if options.lock:
            lock(cell, own)
            results[cell] = "pinned"
            continue
        pip(own, "--require-hashes", "-r", str(LOCKS / f"{cell}.txt"))
        tests = options.tests or (TESTS if versions(cell)[1] == "6.0" else (*TESTS, TASKS))
        results[cell] = "passed" if run(own, tests) else "FAILED"
    for cell, result in results.items():
        sys.stdout.write(f"{cell}: {result}\n")
    return int("FAILED" in results.values())


if __name__ == "__main__":
    sys.exit(main())
