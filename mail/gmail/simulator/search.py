"""The language of ``q``: parses the text into a tree of terms, which search_sql makes SQL of.

Terms stand side by side (and), ``OR`` binds tighter, ``-`` negates, ``( )`` and ``{ }`` group
(all of, any of), ``from:(a b)`` applies an operator to a group.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from mail.gmail.simulator.answer import invalid_argument

OPERATORS = frozenset(
    {
        "in", "label", "newer_than", "older_than", "after", "before", "from", "to", "subject",
        "rfc822msgid", "is", "has", "cc", "bcc", "filename", "larger", "smaller", "size",
        "category", "list", "deliveredto", "newer", "older",
    }
)  # fmt: skip
# Operators that only Gmail has are refused, because searched as words they would find other mail.
_UNSUPPORTED = frozenset({"around"})
_MAX_NESTING = 30
_TOKEN = re.compile(
    r"""\s*(?:
        (?P<open>-?[({])
      | (?P<close>[)}])
      | (?P<term>-?(?:(?P<operator>[a-z_0-9]+):)?(?:"(?P<phrase>[^"]*)"?|(?P<word>[^\s(){}"]*)))
    )""",
    re.VERBOSE | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Term:
    """One condition: an operator and its value; "text" for plain words and phrases."""

    operator: str
    value: str


@dataclass(frozen=True, slots=True)
class Not:
    """Matches what its operand does not match."""

    operand: Node


@dataclass(frozen=True, slots=True)
class Group:
    """All or any of its operands; without operands it matches everything."""

    kind: Literal["all", "any"]
    operands: tuple[Node, ...]


Node = Term | Not | Group

_OR, _AND = Term("OR", ""), Term("AND", "")


def parse_query(text: str) -> Node:
    """Return the tree of a query. Like Gmail's, the parser forgives unbalanced brackets.

    Raises:
        ApiError: 400, an operator only the real Gmail has, or absurd nesting.
    """
    return _Parser(text.replace("\0", " ")).group(closing="", operator="text")


class _Parser:
    """A cursor over the query text."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._depth = 0

    def group(self, *, closing: str, operator: str) -> Group:
        """Read up to the closing bracket; words without an operator get ``operator``."""
        self._depth += 1
        if self._depth > _MAX_NESTING:
            raise invalid_argument("Search query nests too deep")
        operands: list[Node] = []
        or_pending = False
        while (node := self._next(operator)) is not None:
            if node == _OR:
                or_pending = bool(operands)
            elif node != _AND:
                if or_pending:
                    operands[-1] = _either(operands[-1], node)
                else:
                    operands.append(node)
                or_pending = False
        self._depth -= 1
        return Group("any" if closing == "}" else "all", tuple(operands))

    def _next(self, operator: str) -> Node | None:
        """Return the next operand, or None at the end of the group."""
        while self._position < len(self._text):
            match = _TOKEN.match(self._text, self._position)
            if match is None:
                self._position += 1
                continue
            self._position = max(match.end(), self._position + 1)
            if match["close"]:
                return None
            if match["open"]:
                return self._bracket(match["open"], operator)
            if node := self._term(match, operator):
                return node
        return None

    def _bracket(self, opening: str, operator: str) -> Node:
        inner = self.group(closing="}" if opening.endswith("{") else ")", operator=operator)
        return Not(inner) if opening.startswith("-") else inner

    def _term(self, match: re.Match[str], operator: str) -> Node | None:
        for keyword in (_OR, _AND):
            if match["term"] == keyword.operator:
                return keyword
        named = (match["operator"] or "").lower()
        value = match["phrase"] if match["phrase"] is not None else match["word"]
        negated = match["term"].startswith("-")
        if named in _UNSUPPORTED:
            raise invalid_argument(f"The simulator has no search operator {named}:")
        if named in OPERATORS:
            if not value and self._text[self._position : self._position + 1] in ("(", "{"):
                bracket = self._text[self._position]
                self._position += 1
                node: Node = self._bracket(bracket, named)
            else:
                node = Term(named, value)
        else:
            word = match["term"].removeprefix("-").replace('"', "")
            if not word:
                return None
            node = Term(operator, word)
        return Not(node) if negated else node


def _either(left: Node, right: Node) -> Group:
    if isinstance(left, Group) and left.kind == "any":
        return Group("any", (*left.operands, right))
    return Group("any", (left, right))
