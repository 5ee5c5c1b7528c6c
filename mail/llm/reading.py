"""What the offline classifier extracts from a message's text before it weighs anything."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from mail.llm.base import MailContext
from mail.llm.phrases import Hits, PhraseIndex, words_of
from mail.llm.words import WORDS, Concept
from mail.text.language import detect_language
from mail.text.quotes import split_reply

_TEXT_CHARS: Final = 60_000
_BODY_CHARS: Final = 20_000
_SUBJECT_CHARS: Final = 500
_FOOTER_CHARS: Final = 700
_QUESTION_CHARS: Final = 7
_PHRASES: Final = PhraseIndex(WORDS)

_URL: Final = re.compile(r"\b(?:https?://|www\.)[^\s<>]+|\bmailto:[^\s<>]+", re.IGNORECASE)
_PARAGRAPH: Final = re.compile(r"\n[^\S\n]*\n")
_INNER_DOT: Final = re.compile(r"(?<=\w)\.(?=\w)")
_SENTENCE: Final = re.compile(r"[^.!?。\uff1f\uff01]+[.!?。\uff1f\uff01]*|[.!?。\uff1f\uff01]+")
_QUESTION: Final = re.compile(r"(?:[?\uff1f؟]|か[。\uff0e]?)[\s)]*\Z")
_ANSWER: Final = re.compile(r"\s{0,9}\w{1,5}\s?(?:\[\d{1,3}\])?:")
_RULE: Final = re.compile(r"[-_=*]{8,}\Z|--\Z")
_SIGNED: Final = re.compile(r"-----BEGIN PGP SIGN(?:ED MESSAGE-----\nHash: \w+|ATURE-----)")
_AMOUNT: Final = re.compile(
    r"(?:[€$£¥]|\b(?:eur|usd|gbp|czk|chf|pln)\b)\s?\d|\d\s?(?:,-\s?)?(?:€|\$|£|kč|(?:eur|usd|gbp|czk|chf|pln|kc)\b)",
    re.IGNORECASE,
)
_CLOCK: Final = re.compile(
    r"\b(?:[01]?\d|2[0-3])(?:[:.h][0-5]\d|\s?(?:am|pm|uhr|hod|h))\b", re.IGNORECASE
)


@dataclass(frozen=True)
class Reading:
    """The newest text of a message, without what it quotes, its signature and its footer.

    ``links`` counts the text's web addresses, which the sentences leave out.
    """

    subject: str
    text: str
    sentences: tuple[str, ...]
    links: int

    @cached_property
    def words(self) -> int:
        """The length of the text in words."""
        return sum(len(sentence.split()) for sentence in self.sentences)

    @cached_property
    def questions(self) -> tuple[int, ...]:
        """Which sentences are the writer's questions; not those that end with a quotation mark."""
        return tuple(
            number
            for number, sentence in enumerate(self.sentences)
            if _QUESTION.search(sentence) and len(sentence) > _QUESTION_CHARS
        )

    @property
    def asks_in_subject(self) -> bool:
        """Whether the subject asks, and is not repeated from an earlier mail ("Re:")."""
        return _QUESTION.search(self.subject) is not None and not _ANSWER.match(self.subject)

    @cached_property
    def requests(self) -> tuple[int, ...]:
        """Which sentences have a word that asks for something."""
        return tuple(
            number
            for number, sentence in enumerate(self.sentences)
            if _says(Concept.ASKING, sentence)
        )

    @cached_property
    def wants(self) -> bool:
        """Whether a sentence says what is needed."""
        return any(_says(Concept.WANTING, sentence) for sentence in self.sentences)

    @cached_property
    def in_subject(self) -> Hits:
        """The known words of the subject."""
        return _PHRASES.find(words_of(self.subject))

    @cached_property
    def in_body(self) -> Hits:
        """The known words of the text."""
        return _PHRASES.find([word for one in self.sentences for word in words_of(one)])

    @cached_property
    def in_asking(self) -> Hits:
        """The known words of the sentences that ask."""
        asking = sorted({*self.questions, *self.requests})
        return _PHRASES.find([word for one in asking for word in words_of(self.sentences[one])])

    def anywhere(self, concept: Concept) -> tuple[str, ...]:
        """Return the words of this meaning, the subject's first."""
        found = self.in_subject.get(concept, ()) + self.in_body.get(concept, ())
        return tuple(dict.fromkeys(found))

    @property
    def has_amount(self) -> bool:
        """Whether it names a sum of money."""
        return _AMOUNT.search(f"{self.subject} {self.text}") is not None

    @property
    def has_clock_time(self) -> bool:
        """Whether it names an hour."""
        return _CLOCK.search(f"{self.subject} {self.text}") is not None

    @property
    def language(self) -> str | None:
        """The language of subject and text, None where it cannot be told."""
        return detect_language(" ".join((self.subject, *self.sentences)))


def read(mail: MailContext) -> Reading:
    """Read a message, without the text that its HTML hides from people."""
    text = _without_footer(_SIGNED.split(mail.text[:_TEXT_CHARS]))
    split = split_reply(text)
    body = (split.reply or split.quoted or text)[:_BODY_CHARS]
    plain = _URL.sub(" ", body)
    return Reading(
        subject=mail.subject[:_SUBJECT_CHARS],
        text=body,
        sentences=tuple(_sentences(plain)),
        links=sum(1 for _ in _URL.finditer(body)),
    )


def asks(reading: Reading) -> bool:
    """Say whether the text or its subject explicitly asks for an answer."""
    return bool(reading.questions or reading.requests or reading.asks_in_subject)


def _says(concept: Concept, sentence: str) -> bool:
    """Say whether a sentence has words of this meaning and no closing courtesy."""
    words = _PHRASES.find(words_of(sentence))
    return concept in words and Concept.COURTESY not in words


def _without_footer(parts: list[str]) -> str:
    """Return the text before a line such as ``--`` or ``________`` near its end.

    `parts` are the pieces between the marks of a PGP-signed message; the text is the first that is
    not empty.
    """
    text = next((part for part in parts if part.strip()), "")
    end = 0
    for line in text.splitlines(keepends=True):
        if len(text) - end <= _FOOTER_CHARS and _RULE.match(line.strip()) and text[:end].strip():
            return text[:end]
        end += len(line)
    return text


def _sentences(text: str) -> Iterator[str]:
    """Cut a text into sentences; line ends inside a paragraph do not end one."""
    for paragraph in _PARAGRAPH.split(text):
        joined = _INNER_DOT.sub("·", " ".join(paragraph.split()))
        for sentence in _SENTENCE.findall(joined):
            if sentence.strip():
                yield sentence.strip()
