"""Keeps the circuit breakers' rows: counts what settle has written, opens and closes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction
from uuid_utils.compat import uuid7

from jobs import registry
from jobs.breaker import Breaker, Circuit
from jobs.engine import dialects
from jobs.engine.claim import Claim
from jobs.engine.dialects import Column
from jobs.engine.in_flight import InFlightJob
from jobs.engine.json_storage import to_json
from jobs.engine.outcomes import Completed, DeadLettered, Outcome, Retry
from jobs.engine.transactions import fetch, run
from jobs.states import BreakerState

# A firm's id and a type's name.
Key = tuple[int, str]


@dataclass(frozen=True)
class Switched:
    """A breaker whose state has changed, and the change is stored."""

    firm_id: int
    job_type: str
    state: BreakerState
    trips: int
    fingerprint: str


_watchers: list[Callable[[Switched], None]] = []


def watch(tell: Callable[[Switched], None]) -> None:
    """Call `tell` of every breaker that this process opens or closes, after the commit."""
    _watchers.append(tell)


@dataclass(frozen=True)
class _Attempt:
    """What a breaker wants to know of an attempt; `fingerprint` None: it completed."""

    job_id: UUID
    fingerprint: str | None


def tally(ended: Iterable[tuple[Claim | InFlightJob, Outcome]]) -> None:
    """Count these attempts of types that declare a breaker, in the transaction that is open.

    A row begins with a failure: where all goes well there is none, and nothing is written.
    """
    rules = registry.breakers()
    by_key: dict[Key, list[_Attempt]] = defaultdict(list)
    for claim, outcome in ended:
        if claim.job_type in rules and (attempt := _attempt(claim, outcome)) is not None:
            by_key[claim.firm_id, claim.job_type].append(attempt)
    if not by_key:
        return
    _begin(
        {key for key, them in by_key.items() if any(one.fingerprint is not None for one in them)}
    )
    for key, before in _locked(by_key).items():
        rule = rules[key[1]]
        after = before
        for one in by_key[key]:
            after = after.after(one.job_id, one.fingerprint, rule)
        if after != before:
            write(key, before, after, rule)


def write(key: Key, before: Circuit, after: Circuit, rule: Breaker) -> None:
    """Write what the row, which is locked, has become; the times follow from the change."""
    dialect = dialects.current()
    now = dialect.now_sql()
    window = (
        f"window_ends_at = CASE WHEN %s THEN {dialect.after_sql(now, '%s')} ELSE window_ends_at END"
    )
    opens = after.state is BreakerState.OPEN and before.state is not BreakerState.OPEN
    times = f", opened_at = {now}, probe_at = {dialect.after_sql(now, '%s')}" if opens else ""
    run(
        f"""
        UPDATE jobs_circuitbreaker
        SET state = %s, attempts = %s, failures = %s{dialect.json_cast}, trips = %s,
            fingerprint = %s, probe_job_id = %s, {window}{times}
        WHERE firm_id = %s AND job_type = %s
        """,
        [
            after.state.value,
            after.attempts,
            to_json(dict(after.failures)),
            after.trips,
            after.fingerprint,
            dialect.value(Column.UUID, after.probe),
            before.attempts == 0 or after.attempts == 0,
            rule.window_seconds,
            *([rule.cooldown(after.trips)] if opens else []),
            *key,
        ],
    )
    if after.state is not before.state:
        switched = Switched(*key, after.state, after.trips, after.fingerprint)
        transaction.on_commit(lambda: _tell(switched), robust=True)


def _tell(switched: Switched) -> None:
    for tell in _watchers:
        tell(switched)


def begin(key: Key) -> Circuit:
    """Return the firm's circuit for the type, its row locked and made where there was none."""
    _begin({key})
    return _locked([key])[key]


def _attempt(claim: Claim | InFlightJob, outcome: Outcome) -> _Attempt | None:
    """Return what counts; a job that was put off, released or canceled says nothing."""
    if isinstance(outcome, Completed):
        return _Attempt(claim.job_id, None)
    if isinstance(outcome, Retry | DeadLettered):
        return _Attempt(claim.job_id, outcome.failure.fingerprint)
    return None


def _begin(keys: Collection[Key]) -> None:
    if not keys:
        return
    dialect = dialects.current()
    now = dialect.now_sql()
    rows, params = dialect.rows_sql(
        "r",
        {"id": Column.UUID, "firm": Column.BIGINT, "type": Column.TEXT},
        [(uuid7(), *key) for key in sorted(keys)],
    )
    run(
        f"""
        INSERT INTO jobs_circuitbreaker (id, firm_id, job_type, state, attempts, failures,
            window_ends_at, trips, fingerprint)
        SELECT r.id, r.firm, r.type, 'closed', 0, '{{}}'{dialect.json_cast}, {now}, 0, ''
        FROM {rows} WHERE true
        ON CONFLICT (firm_id, job_type) DO NOTHING
        """,
        params,
    )


def _locked(keys: Collection[Key]) -> Mapping[Key, Circuit]:
    """Return the circuits of those that have a row, in order, locked."""
    dialect = dialects.current()
    rows, params = dialect.rows_sql("r", {"firm": Column.BIGINT, "type": Column.TEXT}, sorted(keys))
    found = fetch(
        f"""
        SELECT b.firm_id, b.job_type, b.state, b.attempts, {dialect.json_text_sql("b.failures")},
            b.trips, b.fingerprint, b.probe_job_id, b.window_ends_at <= {dialect.now_sql()}
        FROM jobs_circuitbreaker b
        WHERE (b.firm_id, b.job_type) IN (SELECT r.firm, r.type FROM {rows})
        ORDER BY b.firm_id, b.job_type {dialect.for_update}
        """,
        params,
    )
    return {(row[0], row[1]): _circuit(row) for row in found}


def _circuit(row: tuple[Any, ...]) -> Circuit:
    state = BreakerState(row[2])
    window_is_over = bool(row[8])
    if state is BreakerState.CLOSED and window_is_over:
        return Circuit()
    return Circuit(
        state=state,
        attempts=row[3],
        failures=json.loads(row[4]),
        trips=row[5],
        fingerprint=row[6],
        probe=dialects.current().read_uuid(row[7]),
    )
