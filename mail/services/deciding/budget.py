"""The firm's daily budget for language models: the most a call may cost is reserved beforehand.

So of any number of calls at the same time only the last one can exceed the budget.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta

from django.db.models import Q, Sum
from django.utils import timezone

from mail import conf
from mail.llm.client import TIMEOUT_SECONDS, Conversation, ModelError, Question
from mail.models import LLMCall
from tenants.models import Firm

MICRO = 1_000_000
# The error of a call that is under way, or whose worker died before the answer.
UNANSWERED = "unanswered"
# After this long a call without an answer lost its worker, and counts with all it may have cost.
UNDER_WAY = timedelta(seconds=5 * TIMEOUT_SECONDS)
ASK_AGAIN_SECONDS = 5.0
# What providers add to a request that has tools.
OVERHEAD_TOKENS = 1_000


class ModelPaused(ModelError):
    """For `seconds` the provider is not asked; usually because it failed repeatedly."""

    code = "model_paused"

    def __init__(
        self,
        seconds: float,
        message: str = "the provider failed repeatedly; it is asked again later",
    ) -> None:
        super().__init__(message)
        self.seconds = seconds


class BudgetSpent(ModelError):
    """The firm's budget of today is spent."""

    code = "budget_spent"


def seconds_to_next_day() -> float:
    """Return how long it is until a firm has a new budget: to midnight in UTC."""
    return (_today() + timedelta(days=1) - timezone.now()).total_seconds()


def most_it_costs(request: Question | Conversation) -> int:
    """Return the most a call can cost, in microdollars; no token is shorter than a byte."""
    texts = [request.system, request.user]
    if isinstance(request, Question):
        texts += [request.tool.description, json.dumps(request.tool.schema)]
    else:
        for tool in request.tools:
            texts += [tool.description, json.dumps(tool.schema)]
        for exchange in request.exchanges:
            texts += [exchange.text, *(str(call.arguments) for call in exchange.calls)]
            texts += exchange.results
    tokens = OVERHEAD_TOKENS + sum(len(text.encode("utf-8", "replace")) for text in texts)
    return cost_of(tokens, request.max_tokens)


def cost_of(prompt_tokens: int, completion_tokens: int) -> int:
    """Return what so many tokens cost, in microdollars."""
    prices = conf.llm().prices
    # Dollars for a million tokens are microdollars for one.
    return round(prompt_tokens * prices[0] + completion_tokens * prices[1])


def check_budget(firm_id: int) -> None:
    """Refuse a call for which no budget is left. Must run in the transaction that stores its row.

    Raises:
        BudgetSpent: the budget of today is spent.
        ModelPaused: the rest of it is reserved for calls under way.
    """
    budget = conf.llm().daily_budget * MICRO
    if not budget:
        return
    # One call at a time counts and reserves; with `no_key` new rows of the firm need not wait.
    Firm.objects.select_for_update(no_key=True).get(pk=firm_id)
    under_way = Q(error=UNANSWERED, created_at__gte=timezone.now() - UNDER_WAY)
    calls = LLMCall.objects.filter(created_at__gte=_today()).aggregate(
        all=Sum("cost_microdollars"), spent=Sum("cost_microdollars", filter=~under_way)
    )
    if (calls["spent"] or 0) >= budget:
        raise BudgetSpent("the firm's budget of today is spent")
    if (calls["all"] or 0) >= budget:
        raise ModelPaused(
            ASK_AGAIN_SECONDS, "calls under way may use up the firm's budget of today"
        )


def _today() -> datetime:
    return timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
