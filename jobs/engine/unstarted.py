"""Returns the tokens of admitted jobs that leave the queue, or wait again, without having started.

A token that is returned is one less that counts as granted: what the bucket and the jobs that may
still start have together stays the same, so that the rate is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.rates import BucketKey, FirmRates
from jobs.engine.token_bucket import KEY_COLUMNS, SAME_KEY
from jobs.engine.transactions import fetch, run


class Unstarted(NamedTuple):
    """What buckets count of an admitted job that has not started, before its row changes."""

    firm_id: int
    job_type: str
    limit_key: str | None
    limit_units: int


def return_tokens(jobs: Iterable[Unstarted]) -> None:
    """Return these jobs' tokens. Must join the transaction that takes away their admission.

    Call it before lock slots are freed: admission, too, locks buckets first. A bucket that another
    transaction has locked gets none: its owner may keep it open, and workers must not wait.
    """
    units = _units_by_bucket(jobs)
    if not units:
        return
    dialect = dialects.current()
    rows, params = dialect.rows_sql(
        "r",
        {**KEY_COLUMNS, "units": Column.BIGINT},
        [(*key, count) for key, count in sorted(units.items())],
    )
    found, found_params = dialect.rows_sql("r", KEY_COLUMNS, sorted(units))
    returned = "CASE WHEN b.granted < r.units THEN b.granted ELSE r.units END"
    run(
        f"""
        WITH free AS {dialect.materialized} (
            SELECT b.id FROM jobs_ratebucket b
            WHERE EXISTS (SELECT 1 FROM {found} WHERE {SAME_KEY}) {dialect.skip_locked}
        )
        UPDATE jobs_ratebucket AS b
        SET tokens = b.tokens + {returned}, granted = b.granted - {returned}
        FROM {rows} WHERE {SAME_KEY} AND b.id IN (SELECT free.id FROM free)
        """,
        [*found_params, *params],
    )


def return_tokens_of(job_id: UUID) -> None:
    """Return the tokens of a pending job, if it was admitted, before its row is changed.

    The caller has locked the row, and requeues the job in the same transaction.
    """
    found = fetch(
        "SELECT firm_id, job_type, limit_key, limit_units FROM jobs_jobqueue"
        " WHERE job_id = %s AND status = 'pending' AND admitted",
        [dialects.current().value(Column.UUID, job_id)],
    )
    return_tokens(Unstarted(*row) for row in found)


def _units_by_bucket(jobs: Iterable[Unstarted]) -> Counter[BucketKey]:
    units: Counter[BucketKey] = Counter()
    rates: dict[int, FirmRates] = {}
    for job in jobs:
        if job.firm_id not in rates:
            rates[job.firm_id] = FirmRates.read(job.firm_id)
        for key, rate in rates[job.firm_id].of_jobs(job.job_type, job.limit_key).items():
            units[key] += rate.units(job.limit_units)
    return units
