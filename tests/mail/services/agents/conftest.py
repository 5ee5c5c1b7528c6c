"""A language model on loopback, asked by either SDK."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pytest_django import Settings

from tests.mail.llm.model_server import ModelServer, model_server


@pytest.fixture(params=["anthropic", "openai"])
def server(request: pytest.FixtureRequest, settings: Settings) -> Iterator[ModelServer]:
    """Serve a model, and let the product use it."""
    with model_server() as served:
        served.use_by(settings, request.param)
        yield served
