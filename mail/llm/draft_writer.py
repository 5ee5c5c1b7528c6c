"""Asks a language model for the text of an answer, and for searches to make before."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)

from mail.llm.client import Answer, AnswerInvalid, Question, Tool
from mail.llm.prompts import MAX_SUBJECT, prompt, system_layers
from mail.text.cleaning import clean_text

MAX_TOKENS: Final = 2048
MAX_CONTEXT_TOKENS: Final = 256
MAX_MESSAGE: Final = 1000
MAX_THREAD: Final = 3000
MAX_SEEN: Final = 1500
MAX_QUERIES: Final = 3

MAX_TEXT: Final = 20_000


def _said(text: str) -> str:
    """Return the text fit for the database and for Gmail."""
    if not (kept := clean_text(text, MAX_TEXT).strip()):
        raise ValueError("the text is empty")
    return kept


Text = Annotated[
    str,
    StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_TEXT),
    AfterValidator(_said),
]
Query = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
Ask = Callable[[Question], Answer]
Arguments = TypeVar("Arguments", bound=BaseModel)


class WriteReply(BaseModel):
    """The arguments of the tool that takes the answer."""

    model_config = ConfigDict(extra="ignore")

    text: Text


class SearchMail(BaseModel):
    """The arguments of the tool that takes searches."""

    model_config = ConfigDict(extra="ignore")

    queries: list[Query] = Field(max_length=MAX_QUERIES)


REPLY_TOOL = Tool(
    name="write_reply",
    description="Give the text of the answer.",
    schema=WriteReply.model_json_schema(),
)
SEARCH_TOOL = Tool(
    name="search_mail",
    description="Name searches for earlier mail that would help.",
    schema=SearchMail.model_json_schema(),
)


@dataclass(frozen=True, kw_only=True)
class ReplyRequest:
    """What the model is told and shown; `messages` are the thread's texts, oldest first."""

    sender: str
    subject: str
    messages: Sequence[dict[str, str]]
    style: str
    rules: Sequence[str] = ()
    language: str
    sign_off: str
    examples: Sequence[dict[str, str]] = ()
    directions: Sequence[str] = ()
    llm_rules: Sequence[str] = ()
    instructions: str = ""
    current_draft: str = ""
    related: Sequence[str] = field(default_factory=tuple)


def write_reply(ask: Ask, request: ReplyRequest) -> str:
    """Return the text of the answer.

    Raises:
        ModelError: there is no usable answer.
    """
    question = Question(_system(request), _user(request), REPLY_TOOL, MAX_TOKENS)
    return _checked(WriteReply, ask(question)).text


def searches_for(ask: Ask, subject: str, text: str) -> list[str]:
    """Return the model's search queries, which must be narrowed before they are used.

    Raises:
        ModelError: there is no usable answer.
    """
    mail = json.dumps({"subject": subject[:MAX_SUBJECT], "text": text[:MAX_SEEN]})
    question = Question(
        prompt("context"), f"The mail, as JSON:\n\n{mail}", SEARCH_TOOL, MAX_CONTEXT_TOKENS
    )
    return _checked(SearchMail, ask(question)).queries


def _checked(model: type[Arguments], answer: Answer) -> Arguments:
    try:
        return model.model_validate(answer.arguments)
    except ValidationError:
        raise AnswerInvalid("the call does not fit the schema", answer) from None


def _system(request: ReplyRequest) -> str:
    lines = [
        f"Style: {request.style}.",
        f"Language: {request.language}.",
        f"Sign-off:\n{request.sign_off}",
    ]
    if request.rules:
        numbered = [f"{number}. {rule}" for number, rule in enumerate(request.rules, 1)]
        lines.append("Rules of the style:\n" + "\n".join(numbered))
    lines += [
        "Example:\n" + json.dumps(example, ensure_ascii=False) for example in request.examples
    ]
    base = "\n\n".join([prompt("draft").strip(), *lines])
    return system_layers(base, request.directions, request.llm_rules)


def _user(request: ReplyRequest) -> str:
    shown = {
        "from": request.sender,
        "subject": request.subject[:MAX_SUBJECT],
        "conversation": _newest_within(request.messages),
        "related_mail": list(request.related),
        "instructions": request.instructions,
        "current_draft": request.current_draft,
    }
    kept = {name: value for name, value in shown.items() if value}
    whole = json.dumps(kept, ensure_ascii=False)
    return f"What to answer, as JSON:\n\n{whole}\n\nCall {REPLY_TOOL.name} now."


def _newest_within(messages: Sequence[dict[str, str]]) -> list[dict[str, str]]:
    """Return the newest messages, each shortened, within MAX_THREAD characters in all."""
    shown: list[dict[str, str]] = []
    left = MAX_THREAD
    for message in reversed(messages):
        text = message["text"][: min(MAX_MESSAGE, left)]
        shown.insert(0, {**message, "text": text})
        left -= len(text)
        if left <= 0:
            break
    return shown
