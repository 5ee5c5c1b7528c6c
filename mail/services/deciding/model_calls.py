"""Asks a language model for a mailbox: within the firm's budget, and with a row for each call."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from functools import lru_cache
from typing import TypeVar
from uuid import UUID

from django.db.models.functions import Now
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
from mail.services.deciding.budget import (
    UNANSWERED,
    ModelPaused,
    check_budget,
    cost_of,
    most_it_costs,
)
from tenants.scope import firm_scope

# After so many failed calls in a row the firm's calls of the provider stop for a while.
FAILURES = 5
PAUSE = timedelta(minutes=1)

Answered = TypeVar("Answered", Answer, Reply)


def configured_client(model: str = "") -> ModelClient | None:
    """Return the client of LLM_PROVIDER (None: no model is asked), for LLM_MODEL by default."""
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
    """Ask the model and store the call's usage and end; no transaction may be open.

    Raises:
        BudgetSpent: the firm's budget of the day is spent; nothing was asked.
        ModelPaused: the provider failed repeatedly, or calls under way may use up the budget;
            nothing was asked.
        ModelError: there is no usable answer.
    """
    row = _new_call(client, account, call_type, message_id, job_id)
    row.cost_microdollars = most_it_costs(question)
    return _kept(row, lambda: client.ask(question))


def ask_agent(
    client: ModelClient,
    conversation: Conversation,
    account: MailAccount,
    *,
    message_id: UUID | None = None,
    job_id: UUID | None = None,
) -> Reply:
    """Ask for an agent's next reply, as `ask_model` asks for an answer, with the same errors."""
    row = _new_call(client, account, CallType.AGENT, message_id, job_id)
    row.cost_microdollars = most_it_costs(conversation)
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
        check_budget(row.firm_id)
        _check_failures(row.provider)
        row.error = UNANSWERED
        row.save()
    began = time.monotonic()
    # If anything ends the call without an answer, it counts as lost.
    row.error, is_lost = ModelError.code, True
    answer: Answer | Reply | None = None
    try:
        answer = answered = ask()
        row.error = ""
    except ModelError as error:
        row.error, is_lost = error.code, error.is_lost
        answer = error.answer if isinstance(error, AnswerInvalid) else None
        raise
    finally:
        row.latency_ms = int((time.monotonic() - began) * 1000)
        _keep(row, answer, is_lost)
    return answered


def _keep(row: LLMCall, answer: Answer | Reply | None, is_lost: bool) -> None:
    cost = 0
    if answer is not None:
        row.prompt_tokens, row.completion_tokens = answer.prompt_tokens, answer.completion_tokens
        cost = cost_of(answer.prompt_tokens, answer.completion_tokens)
        is_lost = not (row.prompt_tokens or row.completion_tokens)
    if is_lost:
        # What the provider charges is not known, but at most the amount that was reserved.
        cost = row.cost_microdollars
    with firm_scope(row.firm_id):
        LLMCall.objects.filter(pk=row.pk).update(
            prompt_tokens=row.prompt_tokens,
            completion_tokens=row.completion_tokens,
            cost_microdollars=cost,
            latency_ms=row.latency_ms,
            error=row.error,
            # A call that took a minute to fail counts from its end.
            created_at=Now(),
        )


def _check_failures(provider: str) -> None:
    recent = LLMCall.objects.filter(provider=provider, created_at__gte=timezone.now() - PAUSE)
    calls = recent.exclude(error=UNANSWERED).order_by("-created_at")
    last = list(calls.values_list("error", "created_at")[:FAILURES])
    failed = {ModelUnavailable.code, ModelRefused.code}
    if len(last) == FAILURES and all(error in failed for error, _ in last):
        raise ModelPaused(max((last[0][1] + PAUSE - timezone.now()).total_seconds(), 1.0))
