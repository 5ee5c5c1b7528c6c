"""Words as search compares them: without case and accents, the same on every database."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

# PostgreSQL refuses a word above 2 KB, and words of 1 MB (2**20 - 1 bytes) together.
MAX_WORD_LENGTH = 100
MAX_WORDS = 5000
MAX_BYTES = 1_000_000
MAX_TEXT = 500_000

# Vowels and tones of New Tai Lue and two signs of Vedic texts are letters to Python, but gaps to
# SQLite's index, whose search refuses a word with a gap in it.
_GAPS = "\u19b0-\u19c0\u19c8\u19c9\u1cf2\u1cf3"
_WORD = re.compile(rf"[^\W_{_GAPS}]+")
# Scripts that put no spaces between words are found by their characters.
UNSPACED = "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]"
_UNSPACED = re.compile(UNSPACED)


def words_of(*texts: str) -> list[str]:
    """Return each word once, in alphabetical order; of long texts only the first words."""
    found: set[str] = set()
    room = MAX_BYTES
    for word in _words(texts):
        if word in found:
            continue
        room -= len(word.encode())
        if room < 0:
            break
        found.add(word)
        if len(found) >= MAX_WORDS:
            break
    return sorted(found)


def _words(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        decomposed = unicodedata.normalize("NFKD", text[:MAX_TEXT]).casefold()
        plain = "".join(one for one in decomposed if not unicodedata.combining(one))
        for match in _WORD.finditer(plain):
            yield from _UNSPACED.sub(r" \g<0> ", match[0][:MAX_WORD_LENGTH]).split()
