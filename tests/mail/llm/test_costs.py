"""What a model call counts for in the firm's budget, however the call ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pytest_django import Settings

from jobs.engine.outcomes import Retry
from mail.llm import anthropic, openai
from mail.models import Decision, LLMCall
from mail.services.deciding import model_calls
from tests.mail.llm.model_server import ModelServer, model_server
from tests.mail.mail_kit import Mailbox, drain, letter, only, stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-12")]

SHORT_SECONDS = 0.3
# More than a call costs by its tokens, which is 3,750 microdollars.
SET_ASIDE = 15_000


@pytest.fixture(params=["anthropic", "openai"])
def server(
    request: pytest.FixtureRequest, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ModelServer]:
    """Serve a model, with a short limit on the time of its answers."""
    for sdk in (anthropic, openai):
        monkeypatch.setattr(sdk, "TIMEOUT_SECONDS", SHORT_SECONDS)
    model_calls._client.cache_clear()
    with model_server() as served:
        served.use_by(settings, request.param)
        yield served
    model_calls._client.cache_clear()


def judge(mailbox: Mailbox, subject: str = "Question") -> Any:
    """Let a message arrive and be judged; return how the job ended."""
    mailbox.receive(letter(subject))
    mailbox.store_all()
    return drain()[0]


def break_off(server: ModelServer) -> None:
    server.answers = ["hang up"]


def take_long(server: ModelServer) -> None:
    server.seconds = 3 * SHORT_SECONDS


@pytest.mark.parametrize("trouble", [break_off, take_long])
def test_an_answer_that_was_lost_may_have_cost_what_was_set_aside(
    mailbox: Mailbox, server: ModelServer, trouble: Any
) -> None:
    trouble(server)
    assert isinstance(judge(mailbox), Retry)
    call = only(stored(LLMCall))
    assert call.error == "model_unavailable"
    assert call.cost_microdollars > SET_ASIDE


@pytest.mark.usefixtures("one_day")
def test_a_provider_that_is_always_too_slow_is_paid_no_more_than_the_budget(
    mailbox: Mailbox, server: ModelServer, settings: Settings
) -> None:
    settings.LLM_DAILY_BUDGET = 0.01
    server.seconds = 3 * SHORT_SECONDS
    judge(mailbox)
    judge(mailbox, "Second")
    assert len(server.asked) == 1
    assert only(stored(Decision)).source == "offline"


@pytest.mark.parametrize("status", [401, 429, 500])
def test_a_refusal_costs_nothing(mailbox: Mailbox, server: ModelServer, status: int) -> None:
    server.answers = [status]
    judge(mailbox)
    assert only(stored(LLMCall)).cost_microdollars == 0


def test_where_nobody_takes_the_connection_nothing_is_spent(
    mailbox: Mailbox, server: ModelServer, settings: Settings
) -> None:
    # No server listens on this port.
    settings.LLM_BASE_URL = "http://127.0.0.1:1"
    assert isinstance(judge(mailbox), Retry)
    assert only(stored(LLMCall)).cost_microdollars == 0


@pytest.mark.parametrize("usage", [None, {}])
def test_tokens_that_nobody_told_count_as_the_most_there_can_be(
    mailbox: Mailbox, server: ModelServer, usage: Any
) -> None:
    server.usage = usage
    judge(mailbox)
    call = only(stored(LLMCall))
    assert call.error == ""
    assert call.cost_microdollars > SET_ASIDE
