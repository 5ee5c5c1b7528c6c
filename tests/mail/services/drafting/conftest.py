"""A model for the tests of drafts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from mail.services.deciding import model_calls
from tests.mail.llm.model_server import ModelServer, model_server


@pytest.fixture
def model(settings: Settings) -> Iterator[ModelServer]:
    """Serve a model on loopback, and configure it."""
    with model_server() as server:
        settings.LLM_PROVIDER = "openai"
        settings.LLM_MODEL = "model-1"
        settings.LLM_API_KEY = "key"
        settings.LLM_BASE_URL = f"{server.url}/v1"
        model_calls._client.cache_clear()
        yield server
