"""The fixed sets of words: statuses, categories, priorities, reasons, resolutions."""

from __future__ import annotations

import pytest

from jobs.states import (
    IN_FLIGHT,
    LIVE,
    RETRYABLE,
    TERMINAL,
    Category,
    DeadReason,
    Priority,
    Resolution,
    Status,
)


@pytest.mark.req("J-01")
def test_every_status_is_either_live_or_terminal():
    assert set(Status) == {
        "pending", "claimed", "processing", "completed", "failed", "dlq", "canceled",
    }  # fmt: skip
    assert {"pending", "claimed", "processing"} == LIVE
    assert {"claimed", "processing"} == IN_FLIGHT
    assert set(Status) - LIVE == TERMINAL


@pytest.mark.req("J-17")
def test_only_unsuccessful_ends_can_be_sent_round_again():
    assert {"dlq", "failed", "canceled"} == RETRYABLE


@pytest.mark.req("J-02")
def test_the_categories():
    assert set(Category) == {
        "ingestion", "sync", "recurrence", "orchestration", "documents", "notifications",
        "export", "maintenance",
    }  # fmt: skip


@pytest.mark.req("J-01")
def test_lower_priorities_come_first():
    assert sorted(Priority) == [Priority.CRITICAL, Priority.HIGH, Priority.NORMAL, Priority.LOW]
    assert [int(level) for level in Priority] == [0, 1, 2, 3]


@pytest.mark.req("D-01")
def test_why_a_job_is_dead_and_what_was_decided():
    assert set(DeadReason) == {
        "exhausted", "fatal", "poison", "stale", "unknown_type", "invalid_payload",
    }  # fmt: skip
    assert set(Resolution) == {"reprocessed", "discarded", "escalated"}
