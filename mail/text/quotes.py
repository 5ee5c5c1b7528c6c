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

_WRITER: Final = re.compile(r"[<(][^<>()\s@]{1,320}@[^<>()\s@]{1,320}[>)]")
_COLONS: Final = (":", "\uff1a")
_DIVIDER: Final = re.compile(
    r"[-_=]{2,}\s{0,4}(?:original message|original-nachricht|ursprüngliche nachricht|"
    r"původní zpráva|původní e-mail|pôvodná správa|message d'origine|message original|"
    r"mensaje original|messaggio originale|mensagem original|oorspronkelijk bericht|"
    r"wiadomość oryginalna|originalnachricht|reply message|forwarded message|přeposlaná zpráva|"
    r"weitergeleitete nachricht|message transféré|mensaje reenviado)\s{0,4}[-_=]{2,}\Z"
)
_FROM: Final = ("from", "von", "od", "de", "da", "van", "от", "från", "fra")
_SENT: Final = (
    "sent", "date", "gesendet", "datum", "odesláno", "odoslané", "envoyé", "enviado", "fecha", "data",
    "inviato", "verzonden", "wysłano", "to", "an", "komu", "à", "para", "subject", "betreff",
    "předmět", "predmet", "objet", "asunto", "oggetto", "отправлено", "дата", "кому", "тема",
    "assunto", "aan", "onderwerp", "do", "temat", "skickat", "till", "ämne", "sendt", "dato", "til", "emne",
)  # fmt: skip
_QUOTE_MARK: Final = re.compile(r"(?:[^\W\d_]{1,2})?>")
"""What starts a quoted line; some programs put the initials of who wrote it before the mark."""
_RULE: Final = re.compile(r"[_\-=]{10,}\Z")
_MOBILE: Final = (
    "sent from my ", "sent from mail for ", "sent via ", "get outlook for ", "odesláno z ",
    "odoslané z ", "odesláno ze ", "von meinem ", "gesendet von ", "gesendet mit ", "envoyé de mon ",
    "envoyé depuis ", "envoyé à partir de ", "enviado desde ", "inviato da ", "wysłane z ",
)  # fmt: skip
_MOBILE_CHARS: Final = 80
_INTRODUCTION_LINES: Final = 3
_LOOK_AHEAD_LINES: Final = 5


@dataclass(frozen=True, slots=True)
class SplitReply:
    """A text in three parts; each line is in exactly one of them, in order."""

    reply: str
    quoted: str
    signature: str


def split_reply(text: str) -> SplitReply:
    """Part the newest text of a reply from the quoted history and the signature.

    Knows the marks of Gmail, Apple Mail, Outlook and Thunderbird in the commoner European
    languages. Answers written between quoted lines all count as reply. A line of two dashes starts
    a signature only if it is the only one, because some people separate paragraphs with such lines.
    """
    lines = text.split("\n")
    marks = [line.strip().lower()[:_LINE_CHARS] for line in lines]
    end = _history_start(marks)
    dashes_sign = marks[:end].count("--") == 1
    reply: list[str] = []
    quoted: list[str] = []
    signature: list[str] = []
    target = reply
    skip_until = 0
    for number, mark in enumerate(marks[:end]):
        if number >= skip_until:
            skip_until = number + _introduction_lines(marks, number, end)
        if number < skip_until or _QUOTE_MARK.match(mark):
            quoted.append(lines[number])
            continue
        if (mark == "--" and dashes_sign) or _is_mobile_signature(mark):
            target = signature
        target.append(lines[number])
    quoted += lines[end:]
    return SplitReply(*("\n".join(part).strip() for part in (reply, quoted, signature)))


def newest_text(text: str) -> str:
    """Return the newest text; the whole text if there is none, as in a forwarded mail."""
    return split_reply(text).reply or text


def _history_start(marks: list[str]) -> int:
    """Return the number of the first line of the quoted history, else the number of lines."""
    for number, mark in enumerate(marks):
        if not mark:
            continue
        if _DIVIDER.match(mark) or _is_header_block(marks, number):
            return number
        if _RULE.match(mark) and _is_header_block(marks, number + 1):
            return number
        introduction = _introduction_lines(marks, number, len(marks))
        if introduction and not _quote_follows(marks, number + introduction):
            return number
    return len(marks)


def _introduction_lines(marks: list[str], number: int, end: int) -> int:
    """Return how many lines from here form "on … somebody wrote:", 0 if none do."""
    first = marks[number]
    if first.endswith(_WROTE_ENDS) and "@" in first:
        return 1
    is_known = first.startswith(_WROTE_STARTS)
    for count, last in enumerate(marks[number : min(number + _INTRODUCTION_LINES, end)], start=1):
        if not last:
            return 0
        if not last.endswith(_COLONS):
            continue
        # Programs wrap the line, also between the two words of "a écrit".
        whole = " ".join(marks[number : number + count])
        if is_known and (whole.endswith(_WROTE_ENDS) or _wrote_in_the_middle(first, last)):
            return count
        if _names_date_and_writer(first, whole) and _quote_follows(marks, number + count):
            return count
    return 0


def _names_date_and_writer(first: str, whole: str) -> bool:
    """Tell, in any language, whether a line before a quote may say who wrote it and when."""
    return _WRITER.search(whole) is not None and any(char.isdigit() for char in first)


def _wrote_in_the_middle(first: str, last: str) -> bool:
    """Tell "am 2. 11. schrieb Anna:" from an ordinary sentence that announces something."""
    if not last.endswith(":") or not any(verb in first for verb in _MIDDLE_VERBS):
        return False
    return any(char.isdigit() for char in first)


def _quote_follows(marks: list[str], number: int) -> bool:
    following = marks[number : number + _LOOK_AHEAD_LINES]
    return _QUOTE_MARK.match(next((mark for mark in following if mark), "")) is not None


def _is_header_block(marks: list[str], number: int) -> bool:
    """Tell whether a quoted mail's header starts here: its From and at least two fields more."""
    if number >= len(marks) or _field_name(marks[number]) not in _FROM:
        return False
    following = marks[number + 1 : number + 1 + _LOOK_AHEAD_LINES]
    return sum(_field_name(mark) in _SENT for mark in following) >= 2


def _field_name(mark: str) -> str:
    name, colon, _ = mark.strip("*").partition(":")
    return name.strip(" *\xa0") if colon else ""


def _is_mobile_signature(mark: str) -> bool:
    return len(mark) <= _MOBILE_CHARS and mark.startswith(_MOBILE)
