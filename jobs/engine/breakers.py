"""Keeps the circuit breakers' rows: counts attempts, opens and closes, chooses probes."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple
from uuid import UUID

from django.db import transaction
from uuid_utils.compat import uuid7

from jobs import registry
from jobs.breaker import MAX_COOLDOWN_SECONDS, Breaker, Circuit
from jobs.engine import dialects
from jobs.engine.claim import Claim, InFlightJob
from jobs.engine.dialects import Column
from jobs.engine.limit_sql import due_sql, key_sql
from jobs.engine.outcomes import Completed, DeadLettered, Outcome, Retry
from jobs.engine.steps import to_json
from jobs.engine.transactions import fetch, in_transaction, reading, run
from jobs.states import BreakerState

BATCH = 100
# A probe that does not start within this time (it waits for a lock, a cap, a worker) is replaced.
PROBE_TIMEOUT_SECONDS = 30.0
# How much later than a window's longest end it may end; more means that the clock was put back. A
# statement that waited for the row may have an earlier time than the one that began the window.
WINDOW_MARGIN_SECONDS = 10.0
# A breaker that has needed a probe for this long has no job left to hold back.
IDLE_SECONDS = 86_400.0

# Every cooldown, and every probe's time, ends before `{latest}`. A later end means that the clock
# was put back.
NEEDS_PROBE = """(
    (b.state = 'open' AND (b.probe_at <= {now} OR b.probe_at > {latest}))
    OR (b.state = 'half_open' AND NOT EXISTS (
        SELECT 1 FROM jobs_jobqueue j WHERE j.job_id = b.probe_job_id
          AND (j.status IN ('claimed', 'processing')
               OR (j.status = 'pending' AND b.probe_at > {now} AND b.probe_at <= {latest}))))
)"""

KEY_COLUMNS = {"firm_id": Column.BIGINT, "job_type": Column.TEXT, "limit_key": Column.TEXT}


class BreakerKey(NamedTuple):
    """What a breaker counts: a firm's jobs of one type and limit key (empty: those without one)."""

    firm_id: int
    job_type: str
    limit_key: str = ""


@dataclass(frozen=True)
class BreakerChange:
    """A breaker's new state, committed."""

    firm_id: int
    job_type: str
    limit_key: str
    state: BreakerState
    trips: int
    fingerprint: str


_subscribers: list[Callable[[BreakerChange], None]] = []


def subscribe(subscriber: Callable[[BreakerChange], None]) -> None:
    """Call `subscriber` after the commit of each change of state that this process makes."""
    _subscribers.append(subscriber)


def count_attempts(ended: Iterable[tuple[Claim | InFlightJob, Outcome]]) -> None:
    """Count these attempts of types that declare a breaker, in the open transaction.

    A breaker's row is inserted with the first failure, so nothing is written while all attempts
    succeed. Attempts that were snoozed, released or canceled are not counted.
    """
    # For each attempt, the job and the failure's fingerprint (None if it completed).
    attempts: dict[BreakerKey, list[tuple[UUID, str | None]]] = defaultdict(list)
    rules: dict[str, Breaker] = {}
    for claim, outcome in ended:
        rule = registry.breaker_of(claim.job_type)
        if rule is None:
            continue
        rules[claim.job_type] = rule
        key = BreakerKey(claim.firm_id, claim.job_type, claim.limit_key or "")
        if isinstance(outcome, Completed):
            attempts[key].append((claim.job_id, None))
        elif isinstance(outcome, Retry | DeadLettered):
            attempts[key].append((claim.job_id, outcome.failure.fingerprint))
    if not attempts:
        return
    _insert_missing(
        {key for key, made in attempts.items() if any(failure is not None for _, failure in made)}
    )
    for key, before in _lock_circuits(attempts).items():
        rule = rules[key.job_type]
        after = before
        for job_id, fingerprint in attempts[key]:
            after = after.after_attempt(job_id, fingerprint, rule)
        if after != before:
            store_circuit(key, before, after, rule)


def lock_circuit(key: BreakerKey) -> Circuit:
    """Return the circuit of this key, its row locked, and inserted if there was none."""
    _insert_missing({key})
    return _lock_circuits([key])[key]


def store_circuit(key: BreakerKey, before: Circuit, after: Circuit, rule: Breaker) -> None:
    """Update the locked row, and its times if the change requires it."""
    dialect = dialects.current()
    now = dialect.now_sql()
    window_starts = before.attempts == 0 or after.attempts == 0
    opens = after.state is BreakerState.OPEN and before.state is not BreakerState.OPEN
    run(
        f"""
        UPDATE jobs_circuitbreaker
        SET state = %s, attempts = %s, failures = %s{dialect.json_cast}, trips = %s,
            fingerprint = %s, probe_job_id = %s
            {f", window_ends_at = {dialect.after_sql(now, '%s')}" if window_starts else ""}
            {f", opened_at = {now}, probe_at = {dialect.after_sql(now, '%s')}" if opens else ""}
        WHERE firm_id = %s AND job_type = %s AND limit_key = %s
        """,
        [
            after.state.value,
            after.attempts,
            to_json(dict(after.failures)),
            after.trips,
            after.fingerprint,
            dialect.value(Column.UUID, after.probe),
            *([rule.window_seconds] if window_starts else []),
            *([rule.cooldown(after.trips)] if opens else []),
            *key,
        ],
    )
    if after.state is not before.state:
        change = BreakerChange(*key, after.state, after.trips, after.fingerprint)
        transaction.on_commit(lambda: _publish(change), robust=True)


def send_probes() -> int:
    """Choose a probe for each breaker that needs one; return how many were chosen.

    A breaker needs one after its cooldown, and when its probe does not start. Admission makes the
    chosen jobs ready.
    """
    dialect = dialects.current()
    now = dialect.now_sql()
    # One second more: a breaker that was opened just now may have a later time than this statement.
    latest = dialect.after_sql(now, str(MAX_COOLDOWN_SECONDS + 1))
    needs_probe = NEEDS_PROBE.format(now=now, latest=latest)
    needed = f"SELECT 1 FROM jobs_circuitbreaker b WHERE {needs_probe} LIMIT 1"
    if not reading(lambda: fetch(needed, [])):
        return 0

    def choose() -> int:
        breakers = fetch(
            f"""
            SELECT b.id, b.probe_job_id, b.firm_id, b.job_type, b.limit_key
            FROM jobs_circuitbreaker b
            WHERE {needs_probe}
            ORDER BY b.firm_id, b.job_type, b.limit_key LIMIT {BATCH} {dialect.skip_locked}
            """,
            [],
        )
        return sum(
            _choose_probe(breaker_id, last_probe, BreakerKey(*key))
            for breaker_id, last_probe, *key in breakers
        )

    return in_transaction(choose)


def drop_idle_breakers() -> None:
    """Delete breakers without a recent failure or without jobs, and those of types with no rule."""
    without = [declared.name for declared in registry.all_types() if declared.breaker is None]
    types = f"b.job_type IN ({', '.join(['%s'] * len(without))})" if without else "false"
    if not reading(lambda: fetch("SELECT 1 FROM jobs_circuitbreaker LIMIT 1", [])):
        return
    dialect = dialects.current()
    now = dialect.now_sql()
    idle_at = dialect.after_sql("b.probe_at", str(IDLE_SECONDS))
    in_transaction(
        lambda: run(
            f"""
            DELETE FROM jobs_circuitbreaker WHERE id IN (
                SELECT b.id FROM jobs_circuitbreaker b
                WHERE b.state = 'closed' AND b.window_ends_at <= {now}
                   OR b.state <> 'closed' AND {idle_at} <= {now} OR {types}
                LIMIT {BATCH} {dialect.skip_locked}
            )
            """,
            without,
        )
    )


def _publish(change: BreakerChange) -> None:
    for subscriber in _subscribers:
        subscriber(change)


def _insert_missing(keys: Collection[BreakerKey]) -> None:
    if not keys:
        return
    dialect = dialects.current()
    rows, params = dialect.rows_sql(
        "r",
        {"id": Column.UUID, **KEY_COLUMNS},
        [(uuid7(), *key) for key in sorted(keys)],
    )
    run(
        f"""
        INSERT INTO jobs_circuitbreaker (id, firm_id, job_type, limit_key, state, attempts,
            failures, window_ends_at, trips, fingerprint)
        SELECT r.id, r.firm_id, r.job_type, r.limit_key, 'closed', 0, '{{}}'{dialect.json_cast},
            {dialect.now_sql()}, 0, ''
        FROM {rows} WHERE true
        ON CONFLICT (firm_id, job_type, limit_key) DO NOTHING
        """,
        params,
    )


def _lock_circuits(keys: Collection[BreakerKey]) -> dict[BreakerKey, Circuit]:
    """Return the circuits that have a row, locked in the order of their keys."""
    dialect = dialects.current()
    rows, params = dialect.rows_sql("r", KEY_COLUMNS, sorted(keys))
    found = fetch(
        f"""
        SELECT b.firm_id, b.job_type, b.limit_key,
            {dialect.seconds_between_sql(dialect.now_sql(), "b.window_ends_at")},
            b.state, b.attempts, {dialect.json_text_sql("b.failures")}, b.trips, b.fingerprint,
            b.probe_job_id
        FROM jobs_circuitbreaker b
        WHERE (b.firm_id, b.job_type, b.limit_key) IN (
            SELECT r.firm_id, r.job_type, r.limit_key FROM {rows}
        )
        ORDER BY b.firm_id, b.job_type, b.limit_key {dialect.for_update}
        """,
        params,
    )
    circuits = {}
    for firm_id, job_type, limit_key, seconds_left, state, attempts, failures, *last in found:
        trips, fingerprint, probe = last
        circuit = Circuit(
            BreakerState(state),
            attempts,
            json.loads(failures),
            trips,
            fingerprint,
            dialect.read_uuid(probe),
        )
        starts_anew = circuit.state is BreakerState.CLOSED and _is_over(job_type, seconds_left)
        key = BreakerKey(firm_id, job_type, limit_key)
        circuits[key] = Circuit() if starts_anew else circuit
    return circuits


def _is_over(job_type: str, seconds_left: float) -> bool:
    """Say whether a window of a closed circuit is over; one that ends too late counts as over."""
    rule = registry.breaker_of(job_type)
    too_late = rule is not None and seconds_left > rule.window_seconds + WINDOW_MARGIN_SECONDS
    return seconds_left <= 0 or too_late


def _choose_probe(breaker_id: Any, last_probe: Any, key: BreakerKey) -> bool:
    """Make the next waiting job the probe; the last probe only if no other job waits."""
    dialect = dialects.current()
    jobs = fetch(
        f"""
        SELECT q.job_id FROM jobs_jobqueue q
        WHERE q.waiting AND q.firm_id = %s AND q.job_type = %s
          AND {key_sql("q", "limit_key")} = %s AND {due_sql("q")}
        ORDER BY CASE WHEN q.job_id = %s THEN 1 ELSE 0 END, q.priority, q.scheduled_at, q.job_id
        LIMIT 1
        """,
        [*key, last_probe],
    )
    if not jobs:
        # No job waits; the next one becomes the probe.
        return False
    until = dialect.after_sql(dialect.now_sql(), "%s")
    run(
        f"UPDATE jobs_circuitbreaker SET state = 'half_open', probe_job_id = %s, probe_at = {until}"
        " WHERE id = %s",
        [jobs[0][0], PROBE_TIMEOUT_SECONDS, breaker_id],
    )
    return True
