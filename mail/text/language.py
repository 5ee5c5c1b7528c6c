"""A guess at the language of a text, from its letters and its commonest words."""

from __future__ import annotations

import re
from typing import Final

_SAMPLE_CHARS: Final = 5_000
_WORD: Final = re.compile(r"[^\W\d_]+")
_MIN_HITS: Final = 2
_MIN_SCRIPT_SHARE: Final = 0.3

_SCRIPTS: Final = (
    ("ja", "\u3041", "\u30ff"),
    ("ko", "\uac00", "\ud7a3"),
    ("zh", "\u4e00", "\u9fff"),
    ("ru", "\u0400", "\u04ff"),
    ("el", "\u0370", "\u03ff"),
    ("he", "\u0590", "\u05ff"),
    ("ar", "\u0600", "\u06ff"),
)
"""Languages told by their letters; kana come before the signs Japanese shares with Chinese."""

_STOP_WORDS: Final = {
    "en": "the and to of you is for that it this with are have be your not will we can from please a i in "
    "on at as an or by do no so if my me he she they was has but all our",
    "cs": "je na se že to v za jsem jsme s pro prosím děkuji dobrý den jak při nebo byl bude od které ale už",
    "sk": "je na sa že to v za som sme s pre prosím ďakujem dobrý deň ako pri alebo bol bude od ktoré ale už",
    "de": "der die und das ist nicht ich sie wir mit für auf ein eine den von zu bitte im dem werden haben",
    "fr": "le la les et des vous est de un une pour que nous dans je pas votre avec sur merci bonjour en",
    "es": "el la los que de y en un una por con para su se no es las del gracias hola está lo",
    "it": "il di che la e un una per con non sono è grazie del della le si ciao dei questo",
    "pl": "i w na się nie jest że do z o proszę dziękuję dzień dobry jak ale to od pan będzie",
    "nl": "de het een en van is dat niet ik wij voor met zijn op te u aan wordt bedankt graag",
    "pt": "o a os que de e em um uma para com não por é do da obrigado você está no na",
}  # fmt: skip
_INDEX: Final = {language: frozenset(words.split()) for language, words in _STOP_WORDS.items()}


def detect_language(text: str) -> str | None:
    """Return the ISO 639-1 code of the text's likeliest language, None when it cannot be told."""
    sample = text[:_SAMPLE_CHARS].lower()
    words = _WORD.findall(sample)
    if not words:
        return None
    letters = sum(map(len, words))
    for language, first, last in _SCRIPTS:
        if sum(first <= char <= last for char in sample) > letters * _MIN_SCRIPT_SHARE:
            return language
    hits = {code: sum(word in known for word in words) for code, known in _INDEX.items()}
    best = max(hits, key=lambda code: hits[code])
    return best if hits[best] >= _MIN_HITS else None
