"""A guess at the charset of bytes whose label is missing or wrong."""

from __future__ import annotations

from typing import Final

_SAMPLE_BYTES: Final = 4096
_FALLBACK: Final = "cp1252"
_PUNCTUATION: Final = "\u201a\u201c\u201d\u201e\u2018\u2019\u2013\u2014…°§€£\u00a0"
_CZECH: Final = "áčďéěíňóřšťúůýžäľĺŕôö"
_POLISH: Final = "ąćęłńóśźż"
_HUNGARIAN: Final = "áéíóöőúüű"
_KANA: Final = "".join(map(chr, range(0x3041, 0x30FF))) + "、。"

_ALPHABETS: Final = (
    ("cp1252", "äöüßáéíóúàâçèêëîïôùûñãõåæøœ¿¡"),
    ("cp1250", _CZECH),
    ("iso8859_2", _CZECH),
    ("cp1250", _POLISH),
    ("iso8859_2", _POLISH),
    ("cp1250", _HUNGARIAN),
    # Small letters only: KOI8-R and CP1251 differ mostly by swapping the cases.
    ("cp1251", "абвгдежзийклмнопрстуфхцчшщъыьэюя"),
    ("koi8_r", "абвгдежзийклмнопрстуфхцчшщъыьэюя"),
    ("cp932", _KANA),
    ("euc_jp", _KANA),
)
"""Codecs with the letters a text in them is mostly made of; of equals the first wins."""


def guess_codec(data: bytes) -> str:
    """Return the codec under which the bytes beyond ASCII look most like some language."""
    if b"\x1b$" in data[:_SAMPLE_BYTES]:
        return "iso2022_jp"
    best, best_share = _FALLBACK, 0.0
    for codec, letters in _ALPHABETS:
        share = _share(data[:_SAMPLE_BYTES].decode(codec, "replace"), frozenset(letters))
        if share > best_share:
            best, best_share = codec, share
    return best


def _share(text: str, letters: frozenset[str]) -> float:
    """Return which part of the non-ASCII characters are expected ones."""
    foreign = [char for char in text if char > "\x7f" and char not in _PUNCTUATION]
    if not foreign:
        return 0.5
    expected = sum(char in letters for char in foreign)
    capitals = sum(char not in letters and char.lower() in letters for char in foreign)
    return (expected + capitals / 2) / len(foreign)
