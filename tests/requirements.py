"""Writes docs/requirements.md from the markers of tests: `python -m tests.requirements`.

Markers are read from the source, so no test has to be importable.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from tests.support.paths import ROOT

DOCUMENT = ROOT / "docs" / "requirements.md"

# The name of each letter's group, and how many requirements the group has.
GROUPS = {
    "J": ("Jobs", 27),
    "W": ("Worker", 7),
    "D": ("Dead letters", 4),
    "S": ("Schedules", 2),
    "T": ("Tenants", 5),
    "O": ("Operators", 8),
    "M": ("Mail", 24),
    "U": ("Universal jobs", 7),
    "E": ("Local first", 4),
    "A": ("Adoption", 3),
}

HEAD = """\
# Requirements and the tests that prove them

Written by `make requirements-table` from the tests' `@pytest.mark.req("J-07")` markers; a test holds
it up to date. "not yet" stands where no test names the requirement.
"""


def main() -> None:
    """Write the table."""
    DOCUMENT.write_text(rendered(), encoding="utf-8")


def rendered() -> str:
    """Return the table as the markers determine it."""
    proofs = collected()
    parts = [HEAD]
    for letter, (title, count) in GROUPS.items():
        parts.append(f"\n## {title}\n\n| id | proved by |\n|---|---|\n")
        for number in range(1, count + 1):
            name = f"{letter}-{number:02d}"
            cell = "<br>".join(sorted(proofs.get(name, ()))) or "not yet"
            parts.append(f"| {name} | {cell} |\n")
    return "".join(parts)


def collected() -> dict[str, set[str]]:
    """Return, for each requirement, the test files that prove it.

    Raises:
        ValueError: a marker names a requirement that does not exist.
    """
    known = {
        f"{letter}-{n:02d}" for letter, (_, count) in GROUPS.items() for n in range(1, count + 1)
    }
    proofs: dict[str, set[str]] = defaultdict(set)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        file = path.relative_to(ROOT).as_posix()
        for name in marked(ast.parse(path.read_text(encoding="utf-8"))):
            if name not in known:
                raise ValueError(f"{file} names a requirement that does not exist: {name}")
            proofs[name].add(file)
    return proofs


def marked(module: ast.Module) -> Iterator[str]:
    """Return the ids in every `pytest.mark.req(…)` of a module."""
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.mark.req":
            for argument in node.args:
                yield str(ast.literal_eval(argument))


if __name__ == "__main__":
    main()
