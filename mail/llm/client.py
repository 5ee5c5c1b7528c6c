"""Asking a language model: one question, or a conversation with tools. Client and errors.

The SDKs of both providers are generated alike: their exceptions have the same names.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Protocol

from django.utils import timezone

TIMEOUT_SECONDS = 60.0
# A longer wait that a provider asks for is cut to a day.
MAX_RETRY_AFTER = 86_400.0
MAX_TOKENS_USED = 2**31 - 1
# The HTTP library's errors that end a connection after the question was sent.
LOST = frozenset({"ReadError", "ReadTimeout", "RemoteProtocolError"})
NOT_THE_API = "what the server answers is not the provider's API: look at LLM_BASE_URL"
CUT_OFF = "the answer was cut off at the most tokens it may have"
TOO_MANY = 429
SERVER_ERROR = 500
# Some servers answer 408 or 409 in place of 429: overloaded, or a conflict with another request.
TRY_AGAIN = frozenset({408, 409, TOO_MANY})


@dataclass(frozen=True)
class Tool:
    """A tool that the model is to call, with a JSON schema of its arguments."""

    name: str
    description: str
    schema: dict[str, Any]


@dataclass(frozen=True)
class Question:
    """One request to a model; everything that comes from mail stands in `user`."""

    system: str
    user: str
    tool: Tool
    max_tokens: int


@dataclass(frozen=True)
class Answer:
    """The arguments with which the model called the tool, not checked yet, and what it used."""

    arguments: Any
    model: str
    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True)
class ToolCall:
    """A call that the model wants made; its arguments are unchecked, `{}` if they were not JSON."""

    call_id: str
    tool: str
    arguments: Any


@dataclass(frozen=True)
class Exchange:
    """What the model said and called, and the result of each call, as JSON, in the same order."""

    text: str
    calls: tuple[ToolCall, ...]
    results: tuple[str, ...]


@dataclass(frozen=True)
class Conversation:
    """A request to a model that may call tools; everything that comes from mail is in `user`."""

    system: str
    user: str
    tools: tuple[Tool, ...]
    max_tokens: int
    exchanges: tuple[Exchange, ...] = ()


@dataclass(frozen=True)
class Reply:
    """What the model says next; without calls it has finished."""

    text: str
    calls: tuple[ToolCall, ...]
    model: str
    prompt_tokens: int
    completion_tokens: int


class ModelError(Exception):
    """The model gave no answer; the message has no mail text and no key.

    `is_lost` says that the model may have answered, but the answer was lost.
    """

    code = "model_error"
    is_lost = False


class ModelUnavailable(ModelError):
    """The provider may answer later: too many requests, an outage, the network."""

    code = "model_unavailable"

    def __init__(
        self, message: str, *, retry_after: float | None = None, is_lost: bool = False
    ) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.is_lost = is_lost


class ModelRefused(ModelError):
    """The provider refuses the request as it is: look at LLM_API_KEY, LLM_MODEL, LLM_BASE_URL."""

    code = "model_refused"


class AnswerInvalid(ModelError):
    """The model's answer is no usable call of the tool."""

    code = "answer_invalid"

    def __init__(self, message: str, answer: Answer | None = None) -> None:
        super().__init__(message)
        self.answer = answer


class ModelClient(Protocol):
    """A provider and a model."""

    provider: str
    model: str

    def ask(self, question: Question) -> Answer:
        """Ask, once; must not run in a transaction.

        Raises:
            ModelError: there is no usable answer.
        """
        ...

    def converse(self, conversation: Conversation) -> Reply:
        """Ask for the next reply, once; must not run in a transaction.

        Raises:
            ModelError: there is no usable answer.
        """
        ...


@contextmanager
def translated(sdk: Any) -> Iterator[None]:
    """Turn an SDK's exceptions into ours, and those raised by reading an answer not of the API.

    The SDKs check no answer, so a page of another server, or its error with status 200, gets here.
    """
    try:
        yield
    except sdk.APIConnectionError as error:
        is_lost = type(error.__cause__).__name__ in LOST
        raise ModelUnavailable(f"no answer: {type(error).__name__}", is_lost=is_lost) from None
    except sdk.APIStatusError as error:
        raise of_status(error.status_code, error.response.headers) from None
    except sdk.APIError as error:
        raise AnswerInvalid(f"no usable answer: {type(error).__name__}") from None
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError):
        raise ModelUnavailable(NOT_THE_API) from None


@contextmanager
def reading(answer: Answer | None = None) -> Iterator[None]:
    """Turn the exceptions of reading a model's answer, which may have any form, into ours."""
    try:
        yield
    except (AttributeError, LookupError, TypeError, ValueError, RecursionError):
        raise AnswerInvalid("the answer is in no known form", answer) from None


def used(usage: Any, name: str) -> int:
    """Return a number of tokens; 0 if the server gives none that can be stored."""
    number = getattr(usage, name, None)
    return number if isinstance(number, int) and 0 <= number <= MAX_TOKENS_USED else 0


def of_status(status: int, headers: Any) -> ModelError:
    """Return the error of an HTTP status."""
    message = f"the provider answers {status}"
    if status in TRY_AGAIN or status >= SERVER_ERROR:
        return ModelUnavailable(message, retry_after=_seconds(headers.get("retry-after")))
    return ModelRefused(message)


def _seconds(header: str | None) -> float | None:
    """Return Retry-After in seconds: a number, or an HTTP date."""
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(header) - timezone.now()).total_seconds()
        except (ValueError, TypeError):
            return None
    return None if math.isnan(seconds) else min(max(seconds, 0.0), MAX_RETRY_AFTER)
