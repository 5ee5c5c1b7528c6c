"""Jobs that talk to Gmail stop being tried while it fails all of a firm's alike."""

from __future__ import annotations

import pytest

from jobs.registry import get

pytestmark = pytest.mark.req("O-07")


@pytest.mark.parametrize("job_type", ["sync", "ingest.gmail", "action.gmail"])
def test_types_that_need_gmail_declare_a_breaker(job_type):
    rule = get(job_type).breaker
    assert rule is not None
    # One job that uses up its attempts says nothing about the others.
    assert rule.min_attempts > get(job_type).retry.max_attempts
