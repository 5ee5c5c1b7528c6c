"""What a reply says itself, apart from the mail it answers and the signature below it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_LINE_CHARS: Final = 400
_WROTE_STARTS: Final = (
    "on ", "am ", "vom ", "dne ", "dňa ", "le ", "el ", "il ", "em ", "op ", "den ", "w dniu ",
)  # fmt: skip
_WROTE_ENDS: Final = (
    "wrote:", "writes:", "schrieb:", "geschrieben:", "napsal:", "napsala:", "napsal(a):",
    "napísal:", "napísala:", "napísal(a):", "a écrit :", "a écrit:", "escribió:", "ha scritto:",
    "escreveu:", "schreef:", "skrev:", "napisał:", "napisała:", "napisał(a):",
)  # fmt: skip
_MIDDLE_VERBS: Final = (" schrieb ", " schreef ", " skrev ")
"""How the line before a quote starts and ends: a date in between, and who wrote."""

_DIVIDER: Final = re.compile(
    r"[-_=]{2,}\s{0,4}(?:original message|original-nachricht|ursprüngliche nachricht|"
    r"původní zpráva|původní e-mail|pôvodná správa|message d'origine|message original|"
    r"mensaje original|messaggio originale|mensagem original|oorspronkelijk bericht|"
    r"wiadomość oryginalna|originalnachricht|reply message|forwarded message|přeposlaná zpráva|"
    r"weitergeleitete nachricht|message transféré|mensaje reenviado)\s{0,4}[-_=]{2,}\Z"
)
_FROM: Final = ("from", "von", "od", "de", "da", "van", "от")
_SENT: Final = (
    "sent", "date", "gesendet", "datum", "odesláno", "odoslané", "envoyé", "enviado", "fecha", "data",
    "inviato", "verzonden", "wysłano", "to", "an", "komu", "à", "para", "subject", "betreff",
    "předmět", "predmet", "objet", "asunto", "oggetto",
)  # fmt: skip
_RULE: Final = re.compile(r"[_\-=]{10,}\Z")
_MOBILE: Final = (
    "sent from my ", "sent from mail for ", "sent via ", "get outlook for ", "odesláno z ",
    "odoslané z ", "odesláno ze ", "von meinem ", "gesendet von ", "gesendet mit ", "envoyé de mon ",
    "envoyé depuis ", "envoyé à partir de ", "enviado desde ", "inviato da ", "wysłane z ",
)  # fmt: skip
_MOBILE_CHARS: Final = 80


@dataclass(frozen=True, slots=True)
class SplitReply:
    """A text in three; each line is in exactly one of them, in its order."""

    reply: str
    quoted: str
    signature: str


def split_reply(text: str) -> SplitReply:
    """Part the newest text of a reply from the quoted history and the signature.

    Knows the marks of Gmail, Apple Mail, Outlook and Thunderbird in the commoner European
    languages. Answers written between quoted lines all count as reply.
    """
    lines = text.split("\n")
    end = _history_start(lines)
    reply: list[str] = []
    quoted: list[str] = []
    signature: list[str] = []
    target = reply
    skip_until = 0
    for number, line in enumerate(lines[:end]):
        mark = line.strip().lower()[:_LINE_CHARS]
        introduction = 0 if number < skip_until else _introduction_lines(lines, number, end)
        if introduction:
            skip_until = number + introduction
        if number < skip_until or mark.startswith(">"):
            quoted.append(line)
            continue
        if line.rstrip() == "--" or _is_mobile_signature(mark):
            target = signature
        target.append(line)
    quoted += lines[end:]
    return SplitReply(*("\n".join(part).strip() for part in (reply, quoted, signature)))


def newest_text(text: str) -> str:
    """Return what the sender wrote now; the whole text where that is nothing, as in a forward."""
    return split_reply(text).reply or text


def _history_start(lines: list[str]) -> int:
    """Return the first line after which everything is history, else the number of lines."""
    for number, line in enumerate(lines):
        mark = line.strip().lower()[:_LINE_CHARS]
        if not mark:
            continue
        if _DIVIDER.match(mark) or _is_header_block(lines, number):
            return number
        if _RULE.match(mark) and _is_header_block(lines, number + 1):
            return number
        introduction = _introduction_lines(lines, number, len(lines))
        if introduction and not _quote_follows(lines, number + introduction):
            return number
    return len(lines)


def _introduction_lines(lines: list[str], number: int, end: int) -> int:
    """Return how many lines from here say "on … somebody wrote:", 0 when they do not."""
    first = lines[number].strip().lower()[:_LINE_CHARS]
    if first.endswith(_WROTE_ENDS) and "@" in first:
        return 1
    if not first.startswith(_WROTE_STARTS):
        return 0
    for count in (1, 2, 3):
        if number + count > end:
            return 0
        last = lines[number + count - 1].strip().lower()[:_LINE_CHARS]
        if not last:
            return 0
        if last.endswith(_WROTE_ENDS) or _wrote_in_the_middle(first, last):
            return count
    return 0


def _wrote_in_the_middle(first: str, last: str) -> bool:
    """Tell "am 2. 11. schrieb Anna:" from an ordinary sentence that announces something."""
    with_number = any(char.isdigit() for char in first)
    return last.endswith(":") and with_number and any(verb in first for verb in _MIDDLE_VERBS)


def _quote_follows(lines: list[str], number: int) -> bool:
    following = (line.strip() for line in lines[number : number + 5])
    return next((line for line in following if line), "").startswith(">")


def _is_header_block(lines: list[str], number: int) -> bool:
    """Tell whether a quoted mail's header starts here: its From and at least two fields more."""
    if number >= len(lines) or _field_name(lines[number]) not in _FROM:
        return False
    following = lines[number + 1 : number + 6]
    return sum(_field_name(line) in _SENT for line in following) >= 2


def _field_name(line: str) -> str:
    name, colon, _ = line.strip().strip("*").partition(":")
    return name.strip(" *\xa0").lower() if colon else ""


def _is_mobile_signature(mark: str) -> bool:
    return len(mark) <= _MOBILE_CHARS and mark.startswith(_MOBILE)
