"""The prompts, a file each, and the layers that are put together for one question."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from mail.llm.base import MailContext

_HEADERS = ("list-id", "return-path", "x-priority", "x-mailer", "reply-to", "precedence")
MAX_SUBJECT = 500
MAX_TEXT = 8000
MAX_HEADER = 500


@cache
def prompt(name: str) -> str:
    """Return the text of a prompt file."""
    return (Path(__file__).parent / f"{name}.md").read_text(encoding="utf-8")


def system_layers(base: str, directions: Sequence[str], llm_rules: Sequence[str]) -> str:
    """Return the system prompt: the base, then what people of the firm added, directions first."""
    layers = [base.strip()]
    if directions:
        numbered = [f"{number}. {text}" for number, text in enumerate(directions, 1)]
        layers.append(
            "Directions of the person, which go before everything above:\n\n" + "\n".join(numbered)
        )
    if llm_rules:
        blocks = [f"- {text}" for text in llm_rules]
        layers.append(
            "Rules of the person, where no direction says otherwise:\n\n" + "\n".join(blocks)
        )
    return "\n\n".join(layers)


def message_layer(mail: MailContext) -> str:
    """Return the message as one JSON object, so that no text in it can end it."""
    headers = [
        [name, value[:MAX_HEADER]] for name, value in mail.headers if name.lower() in _HEADERS
    ]
    return json.dumps(
        {
            "from": {"name": mail.sender.name[:MAX_HEADER], "address": mail.sender.address},
            "to": [address.address for address in mail.to[:20]],
            "cc": [address.address for address in mail.cc[:20]],
            "written_to_me": any(one.key in mail.own_addresses for one in mail.to),
            "subject": mail.subject[:MAX_SUBJECT],
            "headers": headers,
            "messages_in_conversation": mail.thread_messages,
            "i_wrote_last": mail.user_wrote_last,
            "attachments": [one.filename[:200] for one in mail.attachments[:20]],
            "text": mail.text[:MAX_TEXT],
        },
        ensure_ascii=False,
    )
