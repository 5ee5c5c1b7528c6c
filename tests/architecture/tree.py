"""The project's own source files, parsed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.paths import ROOT

PACKAGES = ("config", "mail", "jobs", "tenants", "interfaces")


def sources(*, migrations: bool = False) -> list[Path]:
    """Return every module of the service."""
    return [
        path
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        if migrations or "migrations" not in path.parts
    ]


@cache
def parsed(path: Path) -> ast.Module:
    """Return the module's syntax tree."""
    return ast.parse(path.read_text(encoding="utf-8"))


def place(path: Path, node: ast.expr | ast.stmt | None = None) -> str:
    """Return `path:line` for messages."""
    name = path.relative_to(ROOT).as_posix()
    return name if node is None else f"{name}:{node.lineno}"


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Return every function and method of a module."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count a function's lines, its docstring left out."""
    total = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        total -= (first.end_lineno or first.lineno) - first.lineno + 1
    return total
