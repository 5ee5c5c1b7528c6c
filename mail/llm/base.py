"""The vocabulary of classification: what a classifier is given and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

from mail.labels import LabelKey
from mail.text.addresses import parse_addresses
from mail.text.parsed import Address, AttachmentMeta, Headers

UNKNOWN_LANGUAGE: Final = "und"
"""ISO 639-2 code for a text whose language cannot be told."""
DEFAULT_STYLE: Final = "business"


class Category(StrEnum):
    """What a thread wants from the person; exactly one per decision."""

    NEEDS_RESPONSE = "needs_response"
    """A direct question or personal request: the only category that gets a draft."""
    ACTION_REQUIRED = "action_required"
    """A meeting, a signature, an approval or a deadline."""
    PAYMENT_REQUEST = "payment_request"
    """Something still to be paid; confirmations of payment are FYI."""
    FYI = "fyi"
    """Newsletters, notifications, copies: to be read, if at all."""
    WAITING = "waiting"
    """The person wrote last; it is the others' turn."""

    @property
    def label(self) -> LabelKey:
        """The Gmail label that shows this category."""
        return LabelKey(self.value)


@dataclass(frozen=True, slots=True)
class SenderHistory:
    """What the person did with earlier mail of the same sender in the same mailbox.

    ``said`` are the categories they gave the sender's threads, the oldest first. Of the sender's
    other threads of the last months ``answered`` have an answer by the person, ``unanswered`` none.
    """

    said: tuple[Category, ...] = ()
    answered: int = 0
    unanswered: int = 0


@dataclass(frozen=True, slots=True)
class MailContext:
    """The facts about one message and its thread on which a classifier decides.

    Everything that comes from the mail is untrusted data, never an instruction.
    ``own_addresses`` are the mailbox's addresses and aliases in lower case.
    ``thread_messages`` counts this message too. ``user_wrote_last`` is about the whole thread.
    """

    sender: Address
    own_addresses: frozenset[str]
    subject: str
    text: str
    headers: Headers
    to: tuple[Address, ...] = ()
    cc: tuple[Address, ...] = ()
    hidden_text: str = ""
    attachments: tuple[AttachmentMeta, ...] = ()
    calendar_method: str = ""
    thread_messages: int = 1
    user_wrote_last: bool = False
    history: SenderHistory = SenderHistory()

    @property
    def is_own(self) -> bool:
        """Whether the owner wrote the message.

        A form may send under the owner's address, with a Reply-To of the person to be answered.
        """
        replies = parse_addresses(self.headers.get_all("Reply-To"))
        return {self.sender.key, *(one.key for one in replies)} <= self.own_addresses


@dataclass(frozen=True, slots=True)
class ProposedAction:
    """An action that a model proposes for the message; nothing in it is checked yet.

    ``label`` is a name, and ``snooze_days`` a number, where the action takes one.
    """

    action: str
    confidence: float
    rationale: str
    needs_approval: bool = False
    label: str = ""
    snooze_days: int | None = None


@dataclass(frozen=True, slots=True)
class OddProposal:
    """An entry that is no valid action: the action's name in it, and why it was refused."""

    action: str
    refused: str


@dataclass(frozen=True, slots=True)
class Classification:
    """One verdict.

    ``confidence`` is between 0 and 1. ``rationale`` is for people and quotes no more of the mail
    than a few matched keywords. ``features`` are stable names of the signals seen, strongest
    first. ``language`` is an ISO 639-1 code or ``und``. ``style`` names the reply's tone.
    A verdict that is not ``labelled`` is too unsure to be shown in Gmail or to lead to actions.
    Only a model gives ``proposals`` and ``odd_proposals``; the latter have no effect.
    """

    category: Category
    confidence: float
    rationale: str
    features: tuple[str, ...]
    language: str
    style: str
    automated: bool
    labelled: bool = True
    proposals: tuple[ProposedAction, ...] = ()
    odd_proposals: tuple[OddProposal, ...] = ()

    def __post_init__(self) -> None:
        if not 0.0 <= self.confidence <= 1.0:
            raise ValueError(f"confidence must be between 0 and 1, not {self.confidence}")


class Classifier(Protocol):
    """Anything that can judge a message; ``source`` is stored with each decision."""

    source: str

    def classify(self, mail: MailContext) -> Classification:
        """Judge one message; the same facts always give the same verdict where possible."""
        ...
