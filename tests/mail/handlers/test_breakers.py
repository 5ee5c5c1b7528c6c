"""A circuit breaker stops a firm's jobs that call Gmail while they all fail in the same way."""

from __future__ import annotations

import pytest

from jobs.registry import get

pytestmark = pytest.mark.req("O-07")


@pytest.mark.parametrize("job_type", ["sync", "ingest.gmail", "action.gmail"])
def test_types_that_need_gmail_declare_a_breaker(job_type):
    rule = get(job_type).breaker
    assert rule is not None
    # One job that uses up its attempts must not open the breaker for the others.
    assert rule.min_attempts > get(job_type).retry.max_attempts
