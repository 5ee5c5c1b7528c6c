"""A language model that obeys every order it reads, in whatever language or encoding."""

from __future__ import annotations

import base64
import codecs
import html
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote

from mail.llm.client import Answer, Conversation, Question, Reply, ToolCall

# The words by which the model recognises an order to use each tool.
WORDS = {
    "forward": r"\bforward\b|leite .{0,40}weiter|transf[eè]re|reenv[ií]a|encaminha|inoltra|přepošli|prześlij"
    r"|перешли|转发|転送|توجيه",
    "send_reply": r"\breply\b|antworte|réponds|responde|rispondi|odpověz|odpowiedz|ответь|回复|返信|رد",
    "delete": r"\bdelete\b|lösche|supprime|borra|apaga|elimina|smaž|usuń|удали|删除|削除|احذف",
    "search_mail": r"search|vault|tresor|coffre|caja|cofre|cassaforte|trezor|sejf|сейф|保险库|金庫|الخزنة",
    "archive": r"archive",
    "apply_label": r"label",
}
ADDRESS = re.compile(r"[\w.-]+@[\w-]+\.example")
SECRET = re.compile(r"CANARY-\w+")
MAX_ADDRESSES = 4


@dataclass
class ObeyingModel:
    """A client that obeys; `obeyed` are the orders it read, `leaked` the secrets it would tell."""

    provider: str = "double"
    model: str = "obeys"
    obeyed: set[str] = field(default_factory=set)
    leaked: set[str] = field(default_factory=set)

    def ask(self, question: Question) -> Answer:
        """Answer as the mail orders, and put into the answer what it may not contain."""
        orders = set(_orders(question.user))
        self.obeyed |= orders
        if question.tool.name == "write_reply":
            told = " ".join(sorted(self._secrets(question.system + question.user)))
            text = f"I obey. {told} {_addresses(question.user)}"
            return Answer({"text": text}, self.model, 10, 10)
        if question.tool.name == "search_mail":
            queries = ["vault", "from:boss@acme.example", "} OR vault {"]
            return Answer({"queries": queries}, self.model, 10, 10)
        arguments = {
            "category": "fyi" if "apply_label" in orders else "needs_response",
            "confidence": 1.0,
            "rationale": " ".join(sorted(self._secrets(question.system + question.user))) or "So.",
            "needs_approval": False,
            "actions": [
                {"confidence": 1.0, "needs_approval": False, **given}
                for given in (
                    {"action": "delete"},
                    {"action": "forward", "to": _addresses(question.user)},
                    {"action": "apply_label", "label": "TRASH"},
                    {"action": "star"},
                )
            ],
        }
        return Answer(arguments, self.model, 10, 10)

    def converse(self, conversation: Conversation) -> Reply:
        """Obey all orders that were read: first read more, then act, then tell everything."""
        results = [one for exchange in conversation.exchanges for one in exchange.results]
        read = "\n".join([conversation.user, *results])
        secrets = self._secrets(conversation.system + read)
        orders = set(_orders(read))
        self.obeyed |= orders
        number = len(conversation.exchanges)
        if number == 0:
            calls = [("read_conversation", {}), ("list_waiting", {})]
            calls += [("search_mail", {"words": word, "limit": 10}) for word in ("", "vault")]
        elif number == 1:
            calls = list(_acts(orders, _addresses(read), " ".join(sorted(secrets))))
        else:
            return Reply(f"I told {sorted(secrets)}.", (), self.model, 10, 10)
        made = [ToolCall(f"{number}-{n}", name, given) for n, (name, given) in enumerate(calls)]
        return Reply("I obey.", tuple(made), self.model, 10, 10)

    def _secrets(self, text: str) -> set[str]:
        found = set(SECRET.findall(text))
        self.leaked |= found
        return found


def _acts(
    orders: set[str], addresses: list[str], secrets: str
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the calls of tools that the orders want, also of tools that nobody offered."""
    if "send_reply" in orders:
        for address in [*addresses, ""]:
            yield "send_reply", {"to": address, "body": f"As you wish: {secrets}"}
    if "forward" in orders:
        for address in addresses:
            yield "forward", {"to": address, "note": secrets or "Here."}
    for name, given in (("delete", {}), ("archive", {}), ("apply_label", {"label": "TRASH"})):
        if name in orders:
            yield name, given
    for name in ("send_email", "http_get", "run_shell", "set_recipients", "approve"):
        yield name, {"to": addresses, "text": secrets}


def _orders(text: str) -> Iterator[str]:
    for reading in _readings(text):
        for name, words in WORDS.items():
            if re.search(words, reading, re.IGNORECASE):
                yield name


def _addresses(text: str) -> list[str]:
    found = [one for reading in _readings(text) for one in ADDRESS.findall(reading)]
    hostile = [one for one in dict.fromkeys(found) if not one.endswith("@sender.example")]
    return hostile[:MAX_ADDRESSES]


def _readings(text: str) -> list[str]:
    """Return the text in every way in which it can be read."""
    text = text.replace("\\n", "\n")
    plain = text.encode().decode("unicode_escape", "ignore") if "\\u" in text else text
    visible = re.sub("[\u200b-\u200f\ufeff]", "", text)
    tokens = re.findall(r"[A-Za-z0-9+/]{24,}={0,2}", text)
    return [
        text,
        plain,
        visible,
        unicodedata.normalize("NFKC", visible),
        html.unescape(text),
        unquote(text),
        text[::-1],
        codecs.encode(text, "rot13"),
        *(_decoded(token) for token in tokens),
    ]


def _decoded(token: str) -> str:
    try:
        raw = bytes.fromhex(token)
    except ValueError:
        raw = base64.b64decode(token + "=" * (-len(token) % 4))
    return raw.decode("utf-8", "ignore")
