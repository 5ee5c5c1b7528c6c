"""The language of a text."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

_SAMPLE_CHARS: Final = 3_000
_NO_LANGUAGE: Final = re.compile(r"https?://\S+|\S+@\S+|\d+")
_LETTER: Final = re.compile(r"[^\W\d_]")
_LEAST_PROBABILITY: Final = 0.14
"""Two ordinary words of a language reach more; names, codes and single words less."""
_MAIN_LANGUAGE: Final = {"ary": "ar", "arz": "ar", "nb": "no", "nn": "no"}


def detect_language(text: str) -> str | None:
    """Return the ISO 639-1 code of the text's likeliest language, None when it cannot be told."""
    sample = _NO_LANGUAGE.sub(" ", text[:_SAMPLE_CHARS])
    if _LETTER.search(sample) is None:
        return None
    language, probability = _identifier().classify(sample)
    if probability < _LEAST_PROBABILITY:
        return None
    code = _MAIN_LANGUAGE.get(language, language)
    return code if len(code) == 2 else None


@cache
def _identifier() -> LanguageIdentifier:
    # Imported with the first mail, because it loads slowly and brings numpy along.
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
