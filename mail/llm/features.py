"""The facts about a message from which the trained prior tells whether it needs an answer.

Headers and form are the same in every language; the only words used are those of asking, settling
and selling.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import log1p
from typing import Final

from mail.llm.base import MailContext
from mail.llm.reading import Reading, asks
from mail.llm.words import Concept
from mail.text.parsed import Address

REASONS: Final[Mapping[str, str]] = {
    "addressed": "it is addressed to you",
    "addressed_alone": "it is addressed to you alone",
    "copied": "you only get a copy",
    "named_sender": "the sender signs with a person's name",
    "role_sender": "the sender's address is an office, not a person",
    "numbered_sender": "the sender's address is numbered",
    "other_return_path": "it was sent through another domain than the sender's",
    "html_only": "it has no plain text",
    "links": "it has links",
    "unsubscribe": "it says how to unsubscribe",
    "few_words": "it has hardly a word",
    "exclamations": "it has exclamation marks",
    "capitals": "it has words in capitals",
    "many_questions": "it asks more than people answer",
    "asks_you": "it asks you",
    "asks_briefly": "it asks in few words",
    "asks_last": "it ends with what it asks",
    "wants": "it says what is needed of you",
    "sells": "it sells something",
    "settles_only": "it thanks, confirms or encloses, and asks for nothing",
}
"""What each feature is, as a clause for people."""

_ROLES: Final = frozenset(
    {
        "info", "news", "newsletter", "newsletters", "sales", "support", "admin", "marketing",
        "service", "services", "team", "contact", "office", "webmaster", "offers", "promo", "alerts",
        "update", "updates", "mailer", "list", "lists", "subscriptions", "editor", "online",
        "notify", "nobody", "root", "hello", "feedback", "customer", "billing", "digest", "campaign",
    }
)  # fmt: skip
_FEW_WORDS, _SHORT, _CAPITAL_CHARS = 8, 120, 4
_LAST_SENTENCES, _MANY_QUESTIONS, _LINKS_OF_PEOPLE = 3, 4, 2
_NEAR: Final = 12
_LETTERS: Final = re.compile(r"[a-z]+")
_LEAVING: Final = re.compile(r"unsubscri|list-manage|abmelden|desinscri|désinscri|odhlás|odhlas")
_LISTS: Final = ("list", "mailing", "click", "reply", "type")


def features(mail: MailContext, reading: Reading) -> dict[str, float]:
    """Return every feature by its name; 0 means that it does not hold."""
    to = {one.key for one in mail.to}
    cc = {one.key for one in mail.cc}
    addressed = bool(to & mail.own_addresses)
    asked = sorted({*reading.questions, *reading.requests})
    leaving = _tells_to_leave(mail.text)
    # Written to the owner in person: no circulars, and no copies of what others discuss.
    personal = addressed and not leaving and reading.links <= _LINKS_OF_PEOPLE
    asking = asks(reading)
    ends = asking and (not asked or asked[-1] >= len(reading.sentences) - _LAST_SENTENCES)
    wants = reading.wants
    settles = Concept.SETTLING in reading.in_body
    capitals = _capitals(reading.sentences)
    facts = {
        "addressed": addressed,
        "addressed_alone": addressed and len(to | cc) == 1,
        "copied": bool(cc & mail.own_addresses - to),
        "unsubscribe": leaving,
        "links": log1p(reading.links),
        "few_words": reading.words < _FEW_WORDS,
        "exclamations": log1p(sum(one.count("!") for one in reading.sentences)),
        "capitals": min(1.0, 5 * capitals / (reading.words + 5)),
        "many_questions": len(reading.questions) >= _MANY_QUESTIONS,
        "asks_you": personal and asking,
        "asks_briefly": personal and asking and reading.words < _SHORT,
        "asks_last": personal and ends,
        "wants": personal and wants,
        "sells": min(3, len(reading.in_body.get(Concept.SELLING, ()))),
        "settles_only": settles and not asking and not wants,
    } | _of_sender(mail)
    return {name: float(value) for name, value in facts.items()}


def _of_sender(mail: MailContext) -> dict[str, float]:
    local, _, domain = mail.sender.key.partition("@")
    path = (mail.headers.get("Return-Path") or "").strip("<> ").lower()
    content_type = (mail.headers.get("Content-Type") or "").lower()
    return {
        "named_sender": _is_named(mail.sender),
        "role_sender": bool(_ROLES.intersection(_LETTERS.findall(local))),
        "numbered_sender": sum(char.isdigit() for char in local) > 1,
        "other_return_path": "@" in path and path.rpartition("@")[2] != domain,
        "html_only": content_type.startswith("text/html"),
    }


def _is_named(sender: Address) -> bool:
    return len(sender.name.split()) > 1


def _capitals(sentences: Sequence[str]) -> int:
    words = (word for sentence in sentences for word in sentence.split())
    return sum(len(word) >= _CAPITAL_CHARS and word.isupper() for word in words)


def _tells_to_leave(text: str) -> bool:
    """Say whether the text tells how to unsubscribe; quoted lines do not count."""
    own = [line for line in text[:60_000].lower().split("\n") if not line.startswith(">")]
    joined = "\n".join(own)
    if _LEAVING.search(joined):
        return True
    words = joined.split()
    for number, word in enumerate(words):
        if word.startswith(("opt-out", "optout", "opt-in")):
            return True
        if word.startswith("remov"):
            near = words[max(0, number - _NEAR) : number + _NEAR]
            if any(one.startswith(_LISTS) for one in near):
                return True
    return False
