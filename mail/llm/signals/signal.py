"""One observation about a message and what it speaks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from mail.llm.base import Category

_SHOWN_WORDS: Final = 2
_SHOWN_CHARS: Final = 40


@dataclass(frozen=True, slots=True)
class Signal:
    """A reason to choose a category.

    ``name`` is stable and stored; ``reason`` is a clause for people; ``weight`` is positive, and
    about 3 is enough to decide alone. ``matches`` are the phrases seen, of which few are shown.
    """

    name: str
    category: Category
    weight: float
    reason: str
    matches: tuple[str, ...] = ()

    @property
    def sentence_part(self) -> str:
        """The reason with at most two short matched phrases."""
        shown = [f"“{match[:_SHOWN_CHARS]}”" for match in self.matches[:_SHOWN_WORDS]]
        return f"{self.reason} ({', '.join(shown)})" if shown else self.reason
