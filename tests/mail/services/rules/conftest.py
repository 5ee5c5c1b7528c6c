"""A model for the tests of rules."""

from __future__ import annotations

import pytest
from pytest_django import Settings


@pytest.fixture
def agent(settings: Settings) -> None:
    """Configure a language model, so that mail can go to an agent; no test asks the model."""
    settings.LLM_PROVIDER, settings.LLM_MODEL = "openai", "model-1"
    settings.LLM_API_KEY, settings.LLM_BASE_URL = "key", "http://127.0.0.1:9"
