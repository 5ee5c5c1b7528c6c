"""The built-in styles and their closing words; a firm's style of the same name replaces one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

AUTO_LANGUAGE: Final = "auto"


@dataclass(frozen=True)
class Style:
    """A tone in which to answer; `sign_off` is empty for the usual words of the language."""

    name: str
    rules: tuple[str, ...]
    sign_off: str = ""
    language: str = AUTO_LANGUAGE
    examples: tuple[dict[str, str], ...] = ()


BUILT_IN: Final[dict[str, Style]] = {
    style.name: style
    for style in (
        Style("formal", ("Address the person by title and surname.", "Use no contractions.")),
        Style("business", ("Be friendly and to the point.", "Keep it short.")),
        Style("informal", ("Write as to somebody you know well.", "Use the first name.")),
    )
}

_SIGN_OFFS: Final[dict[str, tuple[str, str, str]]] = {
    "en": ("Yours sincerely,", "Best regards,", "Best,"),
    "cs": ("S úctou", "S pozdravem", "Měj se hezky"),
    "de": ("Hochachtungsvoll", "Mit freundlichen Grüßen", "Viele Grüße"),
    "fr": ("Veuillez agréer mes salutations distinguées,", "Cordialement,", "À bientôt,"),
    "es": ("Atentamente,", "Saludos cordiales,", "Un saludo,"),
}


def usual_sign_off(style: str, language: str) -> str:
    """Return a language's closing words for a style; in English if the language is not known."""
    formal, business, informal = _SIGN_OFFS.get(language, _SIGN_OFFS["en"])
    return {"formal": formal, "informal": informal}.get(style, business)
