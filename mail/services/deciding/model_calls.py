"""Asks a language model for a mailbox: within the firm's budget, each call kept."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TypeVar
from uuid import UUID

from django.db.models import Sum
from django.utils import timezone

from mail import conf
from mail.llm.anthropic import AnthropicClient
from mail.llm.client import (
    Answer,
    AnswerInvalid,
    Conversation,
    ModelClient,
    ModelError,
    ModelRefused,
    ModelUnavailable,
    Question,
    Reply,
)
from mail.llm.openai import OpenAIClient
from mail.models import CallType, LLMCall, MailAccount
from tenants.scope import firm_scope

# So many calls that failed one after another stop the firm's calls of the provider for a while.
FAILURES = 5
PAUSE = timedelta(minutes=1)
MICRO = 1_000_000

Answered = TypeVar("Answered", Answer, Reply)


class ModelPaused(ModelError):
    """The provider failed repeatedly: the firm asks it nothing for `seconds`."""

    code = "model_paused"

    def __init__(self, seconds: float) -> None:
        super().__init__("the provider failed repeatedly; it is asked again later")
        self.seconds = seconds


class BudgetSpent(ModelError):
    """The firm's budget of today is spent."""

    code = "budget_spent"


def configured_client(model: str = "") -> ModelClient | None:
    """Return the client of LLM_PROVIDER, None where no model is asked; of LLM_MODEL by default."""
    settings = conf.llm()
    if settings.provider == "offline":
        return None
    return _client(settings.provider, model or settings.model, settings.api_key, settings.base_url)


@lru_cache(maxsize=4)
def _client(provider: str, model: str, api_key: str, base_url: str) -> ModelClient:
    if provider == "anthropic":
        return AnthropicClient(model, api_key, base_url)
    return OpenAIClient(model, api_key, base_url)


def ask_model(
    client: ModelClient,
    question: Question,
    account: MailAccount,
    *,
    call_type: CallType,
    message_id: UUID | None = None,
    job_id: UUID | None = None,
) -> Answer:
    """Ask, and keep what it used and how it ended; no transaction may be open.

    Raises:
        BudgetSpent: the firm's budget of the day is spent; nothing was asked.
        ModelPaused: the provider failed repeatedly; nothing was asked.
        ModelError: there is no usable answer.
    """
    row = _new_call(client, account, call_type, message_id, job_id)
    return _kept(row, lambda: client.ask(question))


def ask_agent(
    client: ModelClient,
    conversation: Conversation,
    account: MailAccount,
    *,
    message_id: UUID | None = None,
    job_id: UUID | None = None,
) -> Reply:
    """Ask for an agent's next reply, as `ask_model` does for an answer; it raises the same."""
    row = _new_call(client, account, CallType.AGENT, message_id, job_id)
    return _kept(row, lambda: client.converse(conversation))


def _new_call(
    client: ModelClient,
    account: MailAccount,
    call_type: CallType,
    message_id: UUID | None,
    job_id: UUID | None,
) -> LLMCall:
    return LLMCall(
        firm_id=account.firm_id,
        account_id=account.pk,
        message_id=message_id,
        job_id=job_id,
        call_type=call_type,
        provider=client.provider,
        model=client.model,
    )


def _kept(row: LLMCall, ask: Callable[[], Answered]) -> Answered:
    with firm_scope(row.firm_id):
        _check_budget()
        _check_failures(row.provider)
    began = time.monotonic()
    # Whatever ends the call without an answer, it was none.
    row.error = ModelError.code
    answer: Answer | Reply | None = None
    try:
        answer = answered = ask()
        row.error = ""
    except ModelError as error:
        row.error = error.code
        answer = error.answer if isinstance(error, AnswerInvalid) else None
        raise
    finally:
        row.latency_ms = int((time.monotonic() - began) * 1000)
        _keep(row, answer)
    return answered


def _keep(row: LLMCall, answer: Answer | Reply | None) -> None:
    if answer is not None:
        row.prompt_tokens, row.completion_tokens = answer.prompt_tokens, answer.completion_tokens
        prices = conf.llm().prices
        # Dollars a million tokens are microdollars a token.
        row.cost_microdollars = round(
            answer.prompt_tokens * prices[0] + answer.completion_tokens * prices[1]
        )
    with firm_scope(row.firm_id):
        row.save()


def seconds_to_next_day() -> float:
    """Return how long it is until a firm has a new budget: to midnight in UTC."""
    return (_today() + timedelta(days=1) - timezone.now()).total_seconds()


def _today() -> datetime:
    return timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)


def _check_budget() -> None:
    budget = conf.llm().daily_budget
    if not budget:
        return
    calls = LLMCall.objects.filter(created_at__gte=_today())
    spent = calls.aggregate(spent=Sum("cost_microdollars"))["spent"] or 0
    if spent >= budget * MICRO:
        raise BudgetSpent("the firm's budget of today is spent")


def _check_failures(provider: str) -> None:
    calls = LLMCall.objects.filter(
        provider=provider, created_at__gte=timezone.now() - PAUSE
    ).order_by("-created_at")
    last = list(calls.values_list("error", "created_at")[:FAILURES])
    failed = {ModelUnavailable.code, ModelRefused.code}
    if len(last) == FAILURES and all(error in failed for error, _ in last):
        raise ModelPaused(max((last[0][1] + PAUSE - timezone.now()).total_seconds(), 1.0))
