"""Earlier mail with the person who is answered, to be shown to the model; its lack fails no job.

Only correspondence with that very person is searched, so that a hostile mail cannot have others'
mail quoted. If the answer goes to another address than the sender's, nothing is searched, because
nobody knows who will read it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

import structlog

from mail.gmail.answers import Message as GmailMessage
from mail.gmail.client import GmailClient
from mail.llm.draft_writer import Ask, searches_for
from mail.models import Message
from mail.text.parse import parse_message
from mail.text.parsed import Address
from mail.text.quotes import newest_text

MAX_HITS: Final = 10
MAX_THREADS: Final = 5
MAX_THREAD_CHARS: Final = 2000
# What is cut out of the model's searches: it could leave the correspondence, or name times.
_OPERATORS: Final = re.compile(r"[{}()\"|]|\bOR\b|\b\w+:\S*|(?<!\w)-")
_ADDRESS: Final = re.compile(r"[\w.+-]+@[\w.-]+")

logger = structlog.get_logger(__name__)


def related_mail(
    gmail: GmailClient, ask: Ask, message: Message, text: str, *, answered: Sequence[Address]
) -> list[str]:
    """Return the texts of up to five related conversations; none if anything goes wrong.

    `answered` are the recipients of the answer.
    """
    if not _ADDRESS.fullmatch(message.sender_address):
        return []
    if [one.key for one in answered] != [message.sender_address.lower()]:
        return []
    try:
        queries = ["", *searches_for(ask, message.subject, text)]
        return list(_conversations(gmail, message, queries))
    except Exception as error:  # noqa: BLE001 - a draft without it is better than none
        logger.warning("mail.no_related_mail", error_class=type(error).__name__)
        return []


def _conversations(gmail: GmailClient, message: Message, queries: Sequence[str]) -> Iterator[str]:
    person = message.sender_address
    threads: dict[str, None] = {}
    for query in queries:
        words = " ".join(_OPERATORS.sub(" ", query).split())
        search = f"{{from:{person} to:{person}}} {words}".strip()
        page = gmail.list_messages(search, max_results=MAX_HITS)
        threads |= dict.fromkeys(one["threadId"] for one in page.get("messages", []))
    threads.pop(message.thread.gmail_thread_id, None)
    for thread_id in list(threads)[:MAX_THREADS]:
        messages = gmail.get_thread(thread_id)["messages"]
        yield "\n---\n".join(_text(one) for one in messages if _is_mail(one))[:MAX_THREAD_CHARS]


def _is_mail(message: GmailMessage) -> bool:
    return "DRAFT" not in message.get("labelIds", [])


def _text(message: GmailMessage) -> str:
    mail = parse_message(message)
    return f"{mail.sender.address}: {newest_text(mail.text)}"
