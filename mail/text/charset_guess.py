"""A guess at the charset of bytes whose label is missing or wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from charset_normalizer import from_bytes

_SAMPLE_BYTES: Final = 4096
_FALLBACK: Final = "cp1252"
_SURE: Final = 0.6
_PUNCTUATION: Final = frozenset("\u201a\u201c\u201d\u201e\u2018\u2019\u2013\u2014…°§€£\u00a0")
_FOREIGN: Final = re.compile(rb"[\x80-\xff]")
_IN_LATIN_WORD: Final = re.compile(rb"(?<=[a-z])[\x80-\xff]+|[\x80-\xff]+(?=[a-z])", re.IGNORECASE)
_LATIN_SHARE: Final = 0.3
_EAST_ASIAN_SHARE: Final = 0.15
_CAPITAL_INSIDE: Final = re.compile(r"(?<=[à-öø-ÿα-ώа-џ])[À-ÖØ-ÞΑ-ΫЀ-Я]")

Weights = tuple[tuple[str, Mapping[str, float]], ...]
"""Codecs with the characters beyond ASCII that are evidence for them, and the weight of each."""

_LATIN: Final = (
    ("cp1252", "éäüöáíóàúèçêñßåâãøæôîëïùœ¿¡"),
    ("cp1252", "éàèçêâùîôûëï"),
    ("cp1252", "äüöß"),
    ("cp1252", "íóáéñúü¿¡"),
    ("cp1252", "ãáçéóêíâõúà"),
    ("cp1252", "äåöøæé"),
    ("cp1250", "íáéěýčžšřůúťďňóäľôĺŕ"),
    ("iso8859_2", "íáéěýčžšřůúťďňóäľôĺŕ"),
    ("cp1250", "łęążśćóńź"),
    ("iso8859_2", "łęążśćóńź"),
    ("cp1250", "áéóöőíüúű"),
    ("iso8859_2", "áéóöőíüúű"),
    ("cp1250", "čšžćđ"),
    ("iso8859_2", "čšžćđ"),
    ("cp1250", "ăîşţâ"),
    ("iso8859_2", "ăîşţâ"),
    ("cp1254", "ıüşğçöİâ"),
)
_OTHER_SCRIPTS: Final = (
    # KOI8-R and CP1251 differ mostly by swapping the cases.
    ("cp1251", "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъё"),
    ("koi8_r", "оеаинтсрвлкмдпуяыьгзбчйхжшюцщэфъё"),
    ("cp1251", "оаинвіерткслудмяпзьбгйчюцїжшхєщф"),
    ("koi8_u", "оаинвіерткслудмяпзьбгйчюцїжшхєщф"),
    ("cp1253", "αοιετσνηυρπκμλςωάίόγδέήχθφύώβξζψ"),
    ("iso8859_7", "αοιετσνηυρπκμλςωάίόγδέήχθφύώβξζψ"),
    ("cp874", "านรกอเง่มย้ลวดทิสตัะปบีคหแจพำ์ุูื็ชขใไโผธซณถึภญศษ"),
    ("cp1255", "יוהלאשרתבמנכעדקחפגצטםסזןךץף"),
    ("cp1256", "اليمونرتبةعدسفهكقحجشأصىطخإضذئزءثغظؤآ"),
)
"""Codecs with the letters beyond ASCII of a language, the commonest first; of equals the first
wins."""


def guess_codec(data: bytes) -> str:
    """Return the codec under which the bytes beyond ASCII look most like some language."""
    sample = data[:_SAMPLE_BYTES]
    if b"\x1b$" in sample:
        return "iso2022_jp"
    foreign = len(_FOREIGN.findall(sample))
    # Only in Latin script do words mix ASCII letters with others.
    is_latin = sum(map(len, _IN_LATIN_WORD.findall(sample))) > foreign * _LATIN_SHARE
    candidates = _LATIN_WEIGHTS if is_latin else _OTHER_WEIGHTS
    # The second byte of a Chinese or Japanese character may look like an ASCII letter.
    if not is_latin or foreign > len(sample) * _EAST_ASIAN_SHARE:
        candidates = (*(one for one in _EAST_ASIAN if _decodes(sample, one[0])), *candidates)
    best, best_share = _FALLBACK, 0.0
    for codec, weights in candidates:
        share = _share(sample.decode(codec, "replace"), weights)
        if share > best_share:
            best, best_share = codec, share
    return best if is_latin or best_share >= _SURE else _general_guess(sample) or best


def _decodes(sample: bytes, codec: str) -> bool:
    """Say whether the sample decodes without error, except for a character cut off at its end."""
    text = sample.decode(codec, "replace")
    return "\ufffd" not in text[:-1]


def _general_guess(sample: bytes) -> str | None:
    """Return the guess of a library that knows many more languages."""
    found = from_bytes(sample, cp_exclusion=["utf_7", "utf_16", "utf_32"]).best()
    return found.encoding if found is not None and found.encoding != "ascii" else None


def _share(text: str, weights: Mapping[str, float]) -> float:
    """Return the share of the characters beyond ASCII that are expected, weighted by frequency."""
    foreign = [char for char in text if char > "\x7f" and char not in _PUNCTUATION]
    if not foreign:
        return 0.0
    # Capitals inside words are a sign of the wrong codec.
    mixed = sum(map(len, _CAPITAL_INSIDE.findall(text)))
    return (sum(weights.get(char, 0.0) for char in foreign) - mixed) / len(foreign)


def _of_letters(letters: str) -> dict[str, float]:
    """Weigh letters from 1 for the commonest to 0.5 for the rarest; capitals count a little less."""
    small = {letter: 1 - 0.5 * rank / len(letters) for rank, letter in enumerate(letters)}
    return {letter.upper(): weight * 0.95 for letter, weight in small.items()} | small


def _of_rows(codec: str, leads: Iterable[int], trails: Iterable[int]) -> str:
    """Return the characters of two bytes that begin with one of these lead bytes."""
    pairs = [bytes((lead, trail)) for lead in leads for trail in trails]
    return "".join(pair.decode(codec, "ignore") for pair in pairs)


def _weighted(weight: float, characters: Iterable[str]) -> dict[str, float]:
    return dict.fromkeys(characters, weight)


_KANA: Final = _weighted(1.0, map(chr, range(0x3041, 0x3100))) | _weighted(1.0, "、。ー")
_STOPS: Final = "\uff0c\u3002\u3001\uff01\uff1f\uff1a\uff1b"
_HIGH: Final = range(0xA1, 0xFF)
# Only the Chinese characters of the first level, because nearly all text consists of those.
_KANJI: Final = _weighted(0.8, _of_rows("euc_jp", range(0xB0, 0xD0), _HIGH))
_EAST_ASIAN: Final[Weights] = (
    ("cp932", _KANJI | _KANA),
    ("euc_jp", _KANJI | _KANA),
    ("cp949", _weighted(1.0, _of_rows("cp949", range(0xB0, 0xC9), _HIGH))),
    ("gb18030", _weighted(0.95, _of_rows("gb18030", range(0xB0, 0xD8), _HIGH) + _STOPS)),
    ("big5", _weighted(0.9, _of_rows("big5", range(0xA4, 0xC7), range(0x40, 0xFF)) + _STOPS)),
)
EAST_ASIAN_CODECS: Final = frozenset(codec for codec, _ in _EAST_ASIAN)
"""The codecs whose letters take two bytes."""

_LATIN_WEIGHTS: Final[Weights] = tuple((codec, _of_letters(letters)) for codec, letters in _LATIN)
_OTHER_WEIGHTS: Final[Weights] = tuple(
    (codec, _of_letters(letters)) for codec, letters in _OTHER_SCRIPTS
)
