"""The phrases the offline classifier knows, one module per language."""

from __future__ import annotations

from typing import Final

from mail.llm.vocabulary import czech, english, french, german, spanish
from mail.llm.vocabulary.concepts import Phrases

VOCABULARIES: Final[dict[str, Phrases]] = {
    "en": english.PHRASES,
    "cs": czech.PHRASES,
    "sk": czech.PHRASES,
    "de": german.PHRASES,
    "fr": french.PHRASES,
    "es": spanish.PHRASES,
}
"""Vocabularies by ISO 639-1 code; Slovak makes do with Czech."""
