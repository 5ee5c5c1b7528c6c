"""What the offline classifier takes in of a message before it weighs anything."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from mail.llm.base import MailContext
from mail.llm.phrases import Hits, PhraseIndex, words_of
from mail.llm.vocabulary import VOCABULARIES
from mail.llm.vocabulary.concepts import Concept
from mail.text.language import detect_language
from mail.text.quotes import newest_text

_TEXT_CHARS: Final = 100_000
_BODY_CHARS: Final = 20_000
_HIDDEN_CHARS: Final = 20_000
_SUBJECT_CHARS: Final = 500
_ORDERS: Final = PhraseIndex(
    {Concept.ORDER_TO_CLASSIFIER: phrases[Concept.ORDER_TO_CLASSIFIER]}
    for phrases in VOCABULARIES.values()
)
_PHRASES: Final = {
    code: PhraseIndex((VOCABULARIES["en"], phrases)) for code, phrases in VOCABULARIES.items()
}
"""English is understood in mail of every language, others only in their own: words collide."""
_ALL_PHRASES: Final = PhraseIndex(VOCABULARIES.values())

_URL: Final = re.compile(r"\b(?:https?://|www\.)[^\s<>]+", re.IGNORECASE)
_PARAGRAPH: Final = re.compile(r"\n[^\S\n]*\n")
_SENTENCE: Final = re.compile(r"[^.!?]*[.!?]*")
_REPLY_PREFIX: Final = re.compile(
    r"\A\s{0,9}(?:(?:re|aw|sv|odp|ref|rv|tr|fwd?|wg|vs|antw)\s?(?:\[\d{1,3}\])?:\s{0,9})+",
    re.IGNORECASE,
)
_CURRENCY: Final = r"(?:€|\$|£|¥|eur|euros?|usd|gbp|czk|kč|kc|chf|pln|zł)"
_AMOUNT: Final = re.compile(
    rf"(?:\b|(?<=\s)){_CURRENCY}\s?\d|(?<![\w.])\d[\d\s.,\xa0]{{0,15}}(?:,-\s?)?{_CURRENCY}(?!\w)",
    re.IGNORECASE,
)
_CLOCK: Final = re.compile(
    r"\b(?:[01]?\d|2[0-3])(?:[:.h][0-5]\d|\s?(?:am|pm|uhr|hod|h))\b", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Reading:
    """The message as the signal families see it.

    ``subject`` and ``body`` hold the phrases found; sentences that order a classifier about have
    been left out of everything, and ``ordered_about`` says that there were some. ``questions``
    counts sentences with a question mark. ``words`` is the length of the newest text.
    """

    subject: Hits
    body: Hits
    questions: int
    words: int
    has_amount: bool
    has_clock_time: bool
    ordered_about: bool
    language: str | None

    def in_subject(self, concept: Concept) -> tuple[str, ...]:
        """Return the phrases of this meaning in the subject."""
        return self.subject.get(concept, ())

    def in_body(self, concept: Concept) -> tuple[str, ...]:
        """Return the phrases of this meaning in the newest text."""
        return self.body.get(concept, ())

    def anywhere(self, concept: Concept) -> tuple[str, ...]:
        """Return the phrases of this meaning, the subject's first."""
        return tuple(dict.fromkeys(self.in_subject(concept) + self.in_body(concept)))


def read(mail: MailContext) -> Reading:
    """Read the subject and the newest text of a message; quoted history does not count.

    Hidden text is searched for orders to the classifier and for nothing else.
    """
    subject, orders_in_subject = _obedience_free(
        _REPLY_PREFIX.sub("", mail.subject[:_SUBJECT_CHARS])
    )
    body, orders_in_body = _obedience_free(newest_text(mail.text[:_TEXT_CHARS])[:_BODY_CHARS])
    _, orders_hidden = _obedience_free(mail.hidden_text[:_HIDDEN_CHARS])
    words = [word for sentence in body for word in words_of(sentence)]
    text = " ".join(subject + body)
    language = detect_language(text)
    phrases = _PHRASES.get(language or "", _ALL_PHRASES)
    return Reading(
        subject=phrases.find([word for sentence in subject for word in words_of(sentence)]),
        body=phrases.find(words),
        questions=sum(sentence.rstrip().endswith("?") for sentence in subject + body),
        words=len(words),
        has_amount=_AMOUNT.search(text) is not None,
        has_clock_time=_CLOCK.search(text) is not None,
        ordered_about=orders_in_subject or orders_in_body or orders_hidden,
        language=language,
    )


def _obedience_free(text: str) -> tuple[list[str], bool]:
    """Return the sentences of a text without those that give orders to whoever classifies it."""
    sentences = _sentences(_URL.sub(" ", text))
    innocent = [sentence for sentence in sentences if not _ORDERS.find(words_of(sentence))]
    return innocent, len(innocent) < len(sentences)


def _sentences(text: str) -> list[str]:
    """Cut a text into sentences; line ends inside a paragraph do not end one."""
    paragraphs = (" ".join(part.split()) for part in _PARAGRAPH.split(text))
    return [
        sentence.strip()
        for paragraph in paragraphs
        for sentence in _SENTENCE.findall(paragraph)
        if sentence.strip()
    ]
