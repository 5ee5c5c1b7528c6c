"""Prometheus's own tool reads the alerting rules and what the web process exports."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from django.test import Client

from jobs.queue import enqueue
from jobs.testing import drain
from tenants.models import Firm
from tests.architecture.tree import ROOT

PROMTOOL = shutil.which("promtool")
pytestmark = [
    pytest.mark.req("O-05"),
    pytest.mark.skipif(PROMTOOL is None, reason="promtool is missing: apt-get install prometheus"),
]


def promtool(*arguments: str, given: bytes = b"") -> str:
    """Return promtool's complaints; empty if it accepts the input."""
    done = subprocess.run(
        [str(PROMTOOL), "check", *arguments], input=given, capture_output=True, check=False
    )
    return "" if done.returncode == 0 else (done.stdout + done.stderr).decode()


def test_promtool_takes_the_alerting_rules() -> None:
    assert promtool("rules", "--lint-fatal", str(ROOT / "docs" / "alerts.yml")) == ""


@pytest.mark.django_db
def test_promtool_takes_the_metrics(client: Client, firm: Firm) -> None:
    enqueue("noop", firm=firm)
    drain()
    enqueue("noop", firm=firm)
    answer = client.get("/metrics")
    assert b"mailroom_jobs{" in answer.content
    assert promtool("metrics", given=answer.content) == ""
