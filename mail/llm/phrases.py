"""Finds known phrases in a text in one pass over its words."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Final

from mail.llm.words import Concept

_WORD: Final = re.compile(r"[^\W_]+\*?")
_MAX_WORD_CHARS: Final = 40
# Letters with a stroke, which Unicode does not split off like an accent.
_STROKES: Final = str.maketrans("łøđ", "lod")

Hits = Mapping[Concept, tuple[str, ...]]
"""The phrases found, by meaning, as the text has them but without case and accents."""


def fold(text: str) -> str:
    """Return ``text`` without case and accents, which people leave out when they type fast."""
    decomposed = unicodedata.normalize("NFKD", text.casefold()).translate(_STROKES)
    return "".join(char for char in decomposed if not unicodedata.combining(char))


def words_of(text: str) -> list[str]:
    """Return the words of a text, folded and cut to a sane length."""
    return [word[:_MAX_WORD_CHARS] for word in _WORD.findall(fold(text.replace("*", " ")))]


class PhraseIndex:
    """Phrases arranged by their first words."""

    def __init__(self, phrases_of: Mapping[Concept, tuple[str, ...]]) -> None:
        self._by_word: dict[str, list[tuple[Sequence[str], Concept]]] = {}
        self._by_stem: dict[str, list[tuple[Sequence[str], Concept]]] = {}
        for concept, phrases in phrases_of.items():
            for phrase in phrases:
                self._add(_WORD.findall(fold(phrase)), concept)
        self._stem_lengths = sorted({len(stem) for stem in self._by_stem})

    def find(self, words: Sequence[str]) -> Hits:
        """Return the phrases that stand in ``words``, each once per meaning, in their order."""
        hits: dict[Concept, dict[str, None]] = {}
        for start, word in enumerate(words):
            for pattern, concept in self._candidates(word):
                span = words[start : start + len(pattern)]
                if len(span) == len(pattern) and all(map(_fits, pattern[1:], span[1:])):
                    hits.setdefault(concept, {})[" ".join(span)] = None
        return {concept: tuple(found) for concept, found in hits.items()}

    def _add(self, pattern: Sequence[str], concept: Concept) -> None:
        first = pattern[0]
        index = self._by_stem if first.endswith("*") else self._by_word
        index.setdefault(first.removesuffix("*"), []).append((pattern, concept))

    def _candidates(self, word: str) -> list[tuple[Sequence[str], Concept]]:
        found = self._by_word.get(word, [])
        for length in self._stem_lengths:
            if length <= len(word):
                found = found + self._by_stem.get(word[:length], [])
        return found


def _fits(pattern: str, word: str) -> bool:
    if pattern.endswith("*"):
        return word.startswith(pattern[:-1])
    return word == pattern
