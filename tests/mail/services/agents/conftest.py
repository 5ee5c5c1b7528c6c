"""A language model on loopback, asked by either SDK, and a mailbox whose mail an agent gets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from tests.mail.llm.model_server import ModelServer, model_server


@pytest.fixture(params=["anthropic", "openai"])
def server(request: pytest.FixtureRequest, settings: Settings) -> Iterator[ModelServer]:
    """Serve a model, and let the product use it."""
    with model_server() as served:
        settings.LLM_PROVIDER = request.param
        settings.LLM_MODEL = "model-1"
        settings.LLM_API_KEY = "sk-canary-3f9a"
        settings.LLM_BASE_URL = served.url
        settings.LLM_PRICES = (3.0, 15.0)
        yield served
