"""Writes how attempts ended, in batches, each row guarded by its lease token.

A row is changed only while its job still carries the token of the claim; the token is then stored
negated, so that a repeat after a lost answer can tell its own work from another's.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from django.db import DataError, IntegrityError, transaction

from jobs.engine import dialects, fast_complete
from jobs.engine.breakers import tally
from jobs.engine.claim import Claim
from jobs.engine.dialects import Column
from jobs.engine.fan_in import leave_fan_ins
from jobs.engine.fast_complete import completion_sql, row_of, started_sql
from jobs.engine.history import Counted, EndedAttempt, count, record
from jobs.engine.limit_sql import held_back_sql
from jobs.engine.locks import free_job_locks
from jobs.engine.open_dead_letter import Death, bury
from jobs.engine.outcomes import Completed, DeadLettered, Failure, Retry
from jobs.engine.released_capacity import ReleasedCapacity
from jobs.engine.settlement import Settlement, SettleReport
from jobs.engine.transactions import fetch, in_transaction
from jobs.engine.transition import Ending, ending_of
from jobs.engine.wakeup import tell_settled
from jobs.states import TERMINAL, AttemptEnd, DeadReason, Status

# None is called as a returned column is: SQLite's RETURNING cannot say whose it means.
COLUMNS = {
    "id": Column.UUID,
    "token": Column.BIGINT,
    "next": Column.TEXT,
    "error": Column.TEXT,
    "due": Column.TIME,
    "delay": Column.FLOAT,
    "refund": Column.INTEGER,
    "died": Column.INTEGER,
    "begun_ago": Column.FLOAT,
}


def settle(settlements: Sequence[Settlement]) -> SettleReport:
    """Write these outcomes; what belongs to them (dead letters, history, locks) in one transaction.

    Plain completions come first, in a statement and transaction of their own (`completions`). Stale claims change nothing and are named in the report. Of two outcomes of one claim the first
    counts. A row the database refuses is settled alone, as a dead letter when it is refused again.
    The caller admits the report's `released_capacity` afterwards.
    """
    once = {settlement.claim.lease_token: settlement for settlement in reversed(settlements)}
    ordered = sorted(once.values(), key=lambda settlement: settlement.claim.job_id.bytes)
    report = SettleReport()
    try:
        report, ordered = _complete_plain(ordered)
        if ordered:
            report.add(in_transaction(lambda: write_outcomes(ordered)))
    except (DataError, IntegrityError):
        for settlement in ordered:
            report.add(_settle_alone(settlement))
    return report


def _complete_plain(
    settlements: Sequence[Settlement],
) -> tuple[SettleReport, list[Settlement]]:
    """Write what is a plain completion; return what became of that, and all that is left."""
    now = time.monotonic()
    written = fast_complete.complete_plain([(*one[:3], one.begun_ago(now)) for one in settlements])
    if not written:
        return SettleReport(), list(settlements)
    done = [one.claim for one in settlements if one.claim.lease_token in written]
    tell_settled([claim.job_id for claim in done])
    report = SettleReport(statuses={claim.job_id: Status.COMPLETED for claim in done})
    report.released_capacity = ReleasedCapacity.of_jobs(done)
    return report, [one for one in settlements if one.claim.lease_token not in written]


def _settle_alone(settlement: Settlement) -> SettleReport:
    try:
        return in_transaction(lambda: write_outcomes([settlement]))
    except (DataError, IntegrityError) as error:
        failure = Failure(type(error).__name__, "the database refused the outcome of this job")
        refused = Settlement(
            settlement.claim, DeadLettered(DeadReason.FATAL, failure), settlement.ran_seconds
        )
        return in_transaction(lambda: write_outcomes([refused]))


def write_outcomes(settlements: Sequence[Settlement]) -> SettleReport:
    """Settle them in the transaction that is open; each claim once, in the order of the jobs."""
    # By token, not by job: a batch may hold an old claim of a job beside the one in force.
    completed = [(one, one.outcome) for one in settlements if isinstance(one.outcome, Completed)]
    others = [one for one in settlements if not isinstance(one.outcome, Completed)]
    endings = {one.claim.lease_token: ending_of(one.outcome) for one in others}
    statuses = {**_complete(completed), **_update(others, endings)}
    settled = [one for one in settlements if one.claim.lease_token in statuses]
    missed = [one.claim for one in settlements if one.claim.lease_token not in statuses]
    over = [one.claim for one in settled if statuses[one.claim.lease_token] in TERMINAL]
    leave_fan_ins((claim.firm_id, claim.job_id) for claim in over)
    _write_history([one for one in settled if one.claim.lease_token in endings], endings, statuses)
    count(_counted(settled, statuses))
    tally((one.claim, one.outcome) for one in settled)
    before = _settled_before(missed)
    report = SettleReport(before=before)
    report.stale = [claim for claim in missed if claim.lease_token not in before]
    report.statuses = {one.claim.job_id: statuses[one.claim.lease_token] for one in settled}
    free_job_locks([one.claim.job_id for one in settled if one.claim.lock_key is not None])
    transaction.on_commit(lambda: tell_settled([claim.job_id for claim in over]), robust=True)
    # Those of before too: whoever wrote them may not have come to hand it on.
    written = statuses.keys() | before.keys()
    report.released_capacity = ReleasedCapacity.of_jobs(
        one.claim for one in settlements if one.claim.lease_token in written
    )
    return report


def _complete(settled: Sequence[tuple[Settlement, Completed]]) -> dict[int, Status]:
    """Write completions on which something hangs; all of them, where there is no shorter way."""
    if not settled:
        return {}
    dialect = dialects.current()
    now = dialect.now_sql()
    moment = time.monotonic()
    table = [
        row_of(one.claim, outcome, one.ran_seconds, one.begun_ago(moment))
        for one, outcome in settled
    ]
    rows, params = dialect.rows_sql("r", fast_complete.COLUMNS, table, hot=True)
    completed = fetch(
        f"""
        UPDATE jobs_jobqueue AS j
        SET {completion_sql(now)}
        FROM {rows}
        WHERE j.job_id = r.id AND j.lease_token = r.token
        RETURNING -lease_token
        """,
        params,
        hot=True,
    )
    return {token: Status.COMPLETED for (token,) in completed}


def _update(settlements: Sequence[Settlement], endings: dict[int, Ending]) -> dict[int, Status]:
    """Write the others; return the new status of each that was still held, by token."""
    if not settlements:
        return {}
    dialect = dialects.current()
    now = dialect.now_sql()
    rows, params = dialect.rows_sql(
        "r", COLUMNS, [_row(one, endings[one.claim.lease_token]) for one in settlements]
    )
    # Somebody asked for the end of a job that would otherwise go round again.
    status = (
        "CASE WHEN r.next = 'pending' AND j.cancel_requested_at IS NOT NULL"
        " THEN 'canceled' ELSE r.next END"
    )
    again = f"({status}) = 'pending'"
    due = f"COALESCE(r.due, {dialect.after_sql(now, 'r.delay')})"
    waits = f"(j.lock_key IS NOT NULL OR {held_back_sql('j')})"
    updated = fetch(
        f"""
        UPDATE jobs_jobqueue AS j
        SET status = {status},
            last_error = COALESCE(r.error, j.last_error),
            attempts = j.attempts - r.refund, deaths = j.deaths + r.died,
            scheduled_at = CASE WHEN {again} THEN {due} ELSE j.scheduled_at END,
            started_at = CASE WHEN {again} AND r.begun_ago IS NULL THEN NULL
                ELSE {started_sql(now)} END,
            completed_at = CASE WHEN {again} THEN NULL ELSE {now} END,
            worker_id = CASE WHEN {again} THEN NULL ELSE j.worker_id END,
            ready = ({again} AND NOT {waits}), waiting = ({again} AND {waits}),
            admitted = false,
            live_key = CASE WHEN {again} THEN j.live_key END,
            lease_token = -j.lease_token,
            updated_at = {now}
        FROM {rows}
        WHERE j.job_id = r.id AND j.lease_token = r.token
        RETURNING -lease_token, status
        """,
        params,
    )
    return {token: Status(status) for token, status in updated}


def _row(settlement: Settlement, ending: Ending) -> tuple[object, ...]:
    return (
        settlement.claim.job_id,
        settlement.claim.lease_token,
        ending.status.value,
        ending.error,
        ending.due,
        ending.delay if ending.delay is not None else 0.0,
        ending.refund,
        int(ending.end is AttemptEnd.RESCUED),
        settlement.begun_ago(time.monotonic()),
    )


def _write_history(
    settled: Sequence[Settlement],
    endings: dict[int, Ending],
    statuses: dict[int, Status],
) -> None:
    """Keep the attempts that did not complete their jobs, and bury the dead."""
    attempts, deaths = [], []
    for one in settled:
        claim, ending = one.claim, endings[one.claim.lease_token]
        again = ending.status is Status.PENDING and ending.end is not AttemptEnd.RESCUED
        canceled = statuses[claim.lease_token] is Status.CANCELED and again
        attempts.append(
            EndedAttempt(
                firm_id=claim.firm_id,
                job_id=claim.job_id,
                series=claim.series,
                number=claim.attempts,
                worker_id=claim.worker_id,
                end=AttemptEnd.CANCELED if canceled else ending.end,
                failure=ending.failure,
                ran_seconds=one.ran_seconds,
            )
        )
        if isinstance(one.outcome, DeadLettered) and one.outcome.to_review:
            deaths.append(
                Death(
                    firm_id=claim.firm_id,
                    job_id=claim.job_id,
                    series=claim.series,
                    reason=one.outcome.reason,
                    failure=one.outcome.failure,
                )
            )
    record(attempts)
    bury(deaths)


def _counted(settled: Sequence[Settlement], statuses: dict[int, Status]) -> Iterator[Counted]:
    """Yield what the counters say of these; snoozes and releases are not counted."""
    for claim, outcome, ran_seconds, _ in settled:
        status = statuses[claim.lease_token]
        if status is Status.COMPLETED:
            word = "completed"
        elif status is not Status.PENDING:
            word = status.value
        elif isinstance(outcome, Retry):
            word = "retried"
        else:
            continue
        waited = claim.waited_seconds
        yield Counted(claim.firm_id, claim.category, word, waited, ran_seconds or 0.0)


def _settled_before(missed: Sequence[Claim]) -> dict[int, Status]:
    """Return, by token, the status of those jobs that an earlier write of their claim settled."""
    if not missed:
        return {}
    dialect = dialects.current()
    rows, params = dialect.rows_sql(
        "r",
        {"job_id": Column.UUID, "token": Column.BIGINT},
        [(claim.job_id, claim.lease_token) for claim in missed],
    )
    mine = fetch(
        f"""
        SELECT r.token, j.status FROM jobs_jobqueue j
        JOIN {rows} ON j.job_id = r.job_id WHERE j.lease_token = -r.token
        """,
        params,
    )
    return {token: Status(status) for token, status in mine}
