"""Queues with one fault each, such as other queues have had: the machine must notice each."""

from __future__ import annotations

import pytest

from jobs.engine import candidates, end_attempts, lease, release, requeue, rescue, settle
from jobs.engine.claim import Claim
from jobs.engine.dialects import postgresql_claim, sqlite
from jobs.engine.fair_share import Cursor, FairShare
from jobs.engine.outcomes import DeadLettered, Failure, Outcome
from jobs.execution import executor
from jobs.operations import jobs
from jobs.states import DeadReason
from tests.support.mutation import (
    FENCE,
    Fault,
    Rewrite,
    RewriteEnd,
    Seen,
    Without,
    WithoutInEnd,
    settle_without_fence,
)


def count_at_failure(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    """Count an attempt when it ends, so that a job that kills its workers is tried for ever."""
    for module in (postgresql_claim, sqlite):
        counting = "attempts = j.attempts + 1"
        assert counting in module.CLAIM_SQL
        without = module.CLAIM_SQL.replace(counting, "attempts = j.attempts")
        monkeypatch.setattr(module, "CLAIM_SQL", without)
    seen.append("claim")
    counted = "attempts = j.attempts + 1 - r.refund"
    RewriteEnd(settle, "attempts = j.attempts - r.refund", counted)(monkeypatch, seen)


def drop_unknown_types(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    """Dead-letter at once the jobs that only newer code can run."""

    def dropped(claim: Claim, declared: object) -> Outcome:
        seen.append(claim.job_type)
        return DeadLettered(DeadReason.UNKNOWN_TYPE, Failure("Unknown", "unknown"))

    monkeypatch.setattr(executor, "_unknown", dropped)


def forget_the_cursor(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    """Begin every claim with the first firm."""

    def cursor(self: FairShare, priority: int) -> Cursor:
        seen.append("claim")
        return Cursor()

    monkeypatch.setattr(FairShare, "cursor", cursor)


MUTANTS: dict[str, Fault] = {
    "no fence in settle": settle_without_fence,
    "no fence in release": RewriteEnd(release, FENCE),
    "unguarded rescue": RewriteEnd(rescue, FENCE),
    "attempts counted at failure": count_at_failure,
    "unknown types dropped": drop_unknown_types,
    "fair share cursor forgotten": forget_the_cursor,
    "attempts given back on retry": RewriteEnd(
        settle,
        "attempts = j.attempts - r.refund",
        "attempts = j.attempts - CASE WHEN r.next = 'pending' THEN 1 ELSE 0 END",
    ),
    "attempts of prefetched jobs used up": RewriteEnd(
        rescue, "attempts = j.attempts - r.refund", "attempts = j.attempts"
    ),
    "deaths not counted": RewriteEnd(rescue, "deaths = j.deaths + r.died", "deaths = j.deaths"),
    "deaths in isolation not counted": RewriteEnd(
        settle, "deaths = j.deaths + r.died", "deaths = j.deaths"
    ),
    "attempts kept by retry": Rewrite(requeue, "attempts = 0", "attempts = attempts"),
    "idempotency key kept": RewriteEnd(
        settle, "THEN j.live_key END", "THEN j.live_key ELSE j.live_key END"
    ),
    "lock slot kept on settle": WithoutInEnd(settle, "free_job_locks"),
    "lock slot kept on rescue": WithoutInEnd(rescue, "free_job_locks"),
    "one slot too many": Rewrite(candidates, "c.lock_limit", "1 + c.lock_limit"),
    "cancel request lost on retry": RewriteEnd(
        settle, "AND j.cancel_requested_at IS NOT NULL", "AND j.cancel_requested_at IS NULL"
    ),
    "dead letter not opened": Without(end_attempts, "open_dead_letters"),
    "dead letter left open by retry": Without(jobs, "close_as_reprocessed"),
    "given-up worker revived": Rewrite(lease, "AND dead_at IS NULL"),
}
