"""Reads from the environment which language model is used."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from config.values import EnvironmentInvalid, parse_web_address

PROVIDERS = ("offline", "anthropic", "openai")
PRICE = r"\d{1,6}(\.\d+)?"


class LLM(NamedTuple):
    """A language model, and what a firm may spend on it a day, in dollars; 0 is no limit."""

    provider: str
    model: str
    base_url: str
    api_key: str
    # Dollars for a million tokens, input and output.
    prices: tuple[float, float]
    daily_budget: float


def read_llm(text: Callable[[str], str]) -> LLM:
    """Return the model; `text` returns a variable's value, "" if it is not set.

    Raises:
        EnvironmentInvalid: a value cannot be used, a provider has no model or key, or a budget has
            no prices.
    """
    provider, model, key = text("LLM_PROVIDER") or "offline", text("LLM_MODEL"), text("LLM_API_KEY")
    if provider not in PROVIDERS:
        reason = f"must be one of {', '.join(PROVIDERS)}; it is {provider!r}"
        raise EnvironmentInvalid("LLM_PROVIDER", reason)
    try:
        base_url = parse_web_address(text("LLM_BASE_URL"))
    except ValueError as error:
        raise EnvironmentInvalid("LLM_BASE_URL", str(error)) from None
    if provider != "offline" and not model:
        raise EnvironmentInvalid("LLM_MODEL", "must be set when LLM_PROVIDER names one")
    if provider != "offline" and not key and not base_url:
        raise EnvironmentInvalid("LLM_API_KEY", "must be set, or LLM_BASE_URL of a server of yours")
    prices = _numbers("LLM_PRICES", text("LLM_PRICES") or "0/0", f"{PRICE}/{PRICE}", "3/15")
    (budget,) = _numbers("LLM_DAILY_BUDGET", text("LLM_DAILY_BUDGET") or "0", PRICE, "5")
    if budget and not any(prices):
        raise EnvironmentInvalid("LLM_PRICES", "must be set when LLM_DAILY_BUDGET is")
    return LLM(provider, model, base_url, key, (prices[0], prices[1]), budget)


def _numbers(name: str, raw: str, pattern: str, example: str) -> list[float]:
    if not re.fullmatch(pattern, raw):
        raise EnvironmentInvalid(name, f"must be in dollars, as in {example}; it is {raw!r}")
    return [float(number) for number in raw.split("/")]
