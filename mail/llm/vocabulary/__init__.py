"""The phrases the offline classifier knows, one module per language."""

from __future__ import annotations

from typing import Final

from mail.llm.vocabulary import czech, english, french, german, spanish
from mail.llm.vocabulary.concepts import Phrases

VOCABULARIES: Final[tuple[Phrases, ...]] = (
    english.PHRASES,
    czech.PHRASES,
    german.PHRASES,
    french.PHRASES,
    spanish.PHRASES,
)
"""All languages at once: firms mix them, and short mails do not tell theirs."""
