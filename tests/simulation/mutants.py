"""Queues with one fault each; most of these show only with a worker, a delay or a crash."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any
from uuid import UUID

import pytest
from django.db import OperationalError

from jobs.engine import (
    admission,
    candidates,
    claim,
    lease,
    limit_sql,
    release,
    rescue,
    settle,
)
from jobs.engine.claim import Claim
from jobs.engine.dialects.claim_parameters import ClaimFilter
from jobs.engine.dialects.sqlite import SqliteDialect
from jobs.engine.outcomes import SettleReport
from jobs.models.base import ID_BYTES
from jobs.worker import claimer, completer, running, state
from jobs.worker.prefetch import PrefetchBuffer
from jobs.worker.running import StartNotes
from jobs.worker.running_slots import RunningSlots
from jobs.worker.signals import StopRequests
from jobs.worker.state import Lease
from tests.support.mutation import (
    Fault,
    Rewrite,
    RewriteEnd,
    Seen,
    WithoutInEnd,
    settle_without_fence,
)


@dataclass(frozen=True)
class Returns:
    """A function of a module, or a method of a class, only returns this value."""

    owner: ModuleType | type
    name: str
    value: Any

    def __call__(self, monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
        def instead(*_: object, **__: object) -> Any:
            seen.append(self.name)
            return self.value

        assert hasattr(self.owner, self.name)
        monkeypatch.setattr(self.owner, self.name, instead)


def trust_forever(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    """Trust the lease for ever."""

    def trusted(_: Lease) -> bool:
        seen.append("trusted")
        return True

    monkeypatch.setattr(Lease, "trusted", property(trusted))


def trust_from_the_answer_on(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    """Count the lease from the answer to a heartbeat, not from the request."""
    extended = Lease.extended

    def late(self: Lease, _: float) -> None:
        seen.append("extended")
        # The module's own clock when this runs, which is the virtual one by then.
        extended(self, vars(state)["time"].monotonic())

    monkeypatch.setattr(Lease, "extended", late)


def drop_what_got_no_answer(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    """Take outcomes for stored although the database did not answer."""
    original = settle.settle

    def once(settlements: Sequence[settle.Settlement], *, again: bool) -> SettleReport:
        try:
            return original(settlements, again=again)
        except OperationalError:
            seen.append("settle")
            return SettleReport()

    monkeypatch.setattr(completer, "settle", once)


def one_more_under_the_cap(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    """Count one job too few under the cap."""
    room = admission._room

    def roomier(firm_id: int) -> int:
        seen.append("room")
        return room(firm_id) + 1

    monkeypatch.setattr(admission, "_room", roomier)


def note_less(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    """Store only the last of the started jobs in the worker's row."""
    original = lease.note_running

    def note(worker_id: UUID, ids: bytes) -> bool:
        seen.append("note_running")
        return original(worker_id, ids[-ID_BYTES:])

    monkeypatch.setattr(running, "note_running", note)


def report_nothing(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    """Let the supervisor report that nothing was running."""

    def running(_: RunningSlots) -> list[int]:
        seen.append("running")
        return []

    monkeypatch.setattr(RunningSlots, "running", property(running))


def stop_twice(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    """Let a second SIGTERM end a supervised worker at once."""
    original = StopRequests.__init__

    def alone(self: StopRequests, *given: Any, supervised: bool, **named: Any) -> None:
        seen.append("StopRequests")
        original(self, *given, supervised=not supervised, **named)

    monkeypatch.setattr(StopRequests, "__init__", alone)


def claim_early(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    """Claim jobs that are not due yet."""
    take, firms_with_work = SqliteDialect.take, SqliteDialect.firms_with_work

    def early(wanted: ClaimFilter) -> ClaimFilter:
        assert "q.scheduled_at <= " in wanted.sql
        seen.append("claim_filter")
        return replace(wanted, sql=wanted.sql.replace("q.scheduled_at <= ", "'' <= "))

    def take_early(self: SqliteDialect, *given: Any, **named: Any) -> Any:
        return take(self, *given[:-1], early(given[-1]), **named)

    def firms_early(self: SqliteDialect, ranges: Any, wanted: ClaimFilter, most: int) -> Any:
        return firms_with_work(self, ranges, early(wanted), most)

    monkeypatch.setattr(SqliteDialect, "take", take_early)
    monkeypatch.setattr(SqliteDialect, "firms_with_work", firms_early)


def overlook_pauses(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    """Ignore pauses when a job is claimed, given back or admitted."""

    def unpaused(job: str) -> str:
        seen.append(job)
        return "1 = 0"

    assert hasattr(limit_sql, "_paused")
    monkeypatch.setattr(limit_sql, "_paused", unpaused)
    # No filter with the pauses may be cached.
    fresh = vars(limit_sql._claim_filter)["__wrapped__"]
    monkeypatch.setattr(limit_sql, "_claim_filter", fresh)


def release_what_was_canceled(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    """Forget the request to cancel when a claim is given back."""
    RewriteEnd(release, "AND j.cancel_requested_at IS NOT NULL", "AND 1 = 0")(monkeypatch, seen)
    RewriteEnd(release, "SET status =", "SET cancel_requested_at = NULL, status =")(
        monkeypatch, seen
    )


def claim_without_an_end(monkeypatch: pytest.MonkeyPatch, seen: Seen) -> None:
    """Claim without the time at which the job expires."""
    read = claim.read_claims

    def endless(*given: Any) -> list[Claim]:
        seen.append("expires_in")
        return [one._replace(expires_in=None) for one in read(*given)]

    monkeypatch.setattr(claim, "read_claims", endless)


# These show only if claims wait for a thread.
RUSH_MUTANTS: dict[str, Fault] = {
    "prefetched claims kept": Returns(PrefetchBuffer, "take_overdue", []),
    "pauses overlooked": overlook_pauses,
    "cancel request lost on release": release_what_was_canceled,
    "expired after the claim": claim_without_an_end,
}

MUTANTS: dict[str, Fault] = {
    "no fence in settle": settle_without_fence,
    "living workers marked dead": Rewrite(rescue, "AND lease_expires_at < ", "AND '' < "),
    "trust without end": trust_forever,
    "trust counted from the answer": trust_from_the_answer_on,
    "release uses up attempts": RewriteEnd(
        release, "attempts = j.attempts - r.refund", "attempts = j.attempts"
    ),
    "started jobs refunded": Returns(rescue, "_started", value=False),
    "starts not noted": Returns(StartNotes, "write", value=True),
    "starts noted by halves": note_less,
    "its own work called stale": Returns(settle, "_why_missed", ({}, set())),
    "report without what was running": report_nothing,
    "report with what had ended": Returns(RunningSlots, "end", None),
    "killed by a repeated SIGTERM": stop_twice,
    "outcome without an answer dropped": drop_what_got_no_answer,
    "claim without an answer forgotten": Returns(claimer, "release_lost", ([], False)),
    "lock slot kept on settle": WithoutInEnd(settle, "free_job_locks"),
    "lock slot kept on rescue": WithoutInEnd(rescue, "free_job_locks"),
    "one slot too many": Rewrite(candidates, "c.lock_limit", "1 + c.lock_limit"),
    "one more under the cap": one_more_under_the_cap,
    "nobody sweeps": Returns(admission.Sweep, "step", 0),
    "claimed before its time": claim_early,
}
