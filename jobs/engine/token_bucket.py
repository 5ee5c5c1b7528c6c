"""Enforces start rates: buckets of tokens, refilled by time; a job takes one for each of its units.

Tokens are taken on admission, but the limit is on starts, and an admitted job may start later. So
the tokens, with the units of the jobs that may still be about to start, never exceed `burst`. These
jobs are the admitted ones that do not run, now or at the last refill (they may have started since).
In any period the units that start are then at most `burst` plus what was refilled in it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from operator import itemgetter
from typing import Any

from uuid_utils.compat import uuid7

from jobs.engine import dialects
from jobs.engine.dialects import LOCK_TIMEOUT_MILLISECONDS, Column
from jobs.engine.limit_sql import ANY_RATE
from jobs.engine.rates import MOST_SPECIFIC_FIRST, BucketKey, FirmRates, Rate
from jobs.engine.transactions import fetch, in_transaction, reading, run
from jobs.states import CountedBy

# A bucket unused for this long is deleted if it is full, because a new one would be full too.
IDLE_SECONDS = 3600.0
BATCH = 100
# A statement that waited for a bucket's lock has an earlier time than the transaction that held the
# lock; by at most this much.
MOST_LOCK_WAIT_SECONDS = 1.0

KEY_COLUMNS = {
    "counted_by": Column.TEXT,
    "firm_id": Column.BIGINT,
    "job_type": Column.TEXT,
    "limit_key": Column.TEXT,
}
NAMES = ", ".join(KEY_COLUMNS)
_ABOUT_TO_START = "q.admitted AND q.ready AND q.status IN ('pending', 'claimed')"
_LIMITS_OF_BUCKET = """
    FROM jobs_ratelimit l
    WHERE l.counted_by = b.counted_by AND l.job_type = b.job_type
      AND l.limit_key IN ('', b.limit_key) AND (l.everywhere OR l.firm_id = b.firm_id)
"""
SAME_KEY = " AND ".join(f"b.{name} = r.{name}" for name in KEY_COLUMNS)


@dataclass
class Bucket:
    """A locked and refilled bucket.

    `granted` are the units that were admitted and not seen to have started. `available` are the
    tokens that this admission may still choose jobs for, at most `tokens`.
    """

    key: BucketKey
    rate: Rate
    tokens: float
    granted: int
    refilled_at: datetime
    available: float
    taken: int = 0

    def choose(self, limit_units: int) -> None:
        """Count a job that is chosen."""
        self.available -= self.rate.units(limit_units)

    def take(self, limit_units: int) -> None:
        """Take the tokens of a job that is admitted; `store_buckets` writes it."""
        self.taken += self.rate.units(limit_units)

    def has_for(self, limit_units: int) -> bool:
        """Say whether there are enough tokens for the job."""
        return self.rate.units(limit_units) <= self.available


def lock_buckets(rates: Mapping[BucketKey, Rate]) -> dict[BucketKey, Bucket]:
    """Lock and refill these buckets, in the order of their keys; new ones are full."""
    if not rates:
        return {}
    dialect = dialects.current()
    now = dialect.now_sql()
    rows, params = dialect.rows_sql(
        "r",
        {**KEY_COLUMNS, "id": Column.UUID, "tokens": Column.FLOAT},
        [(*key, uuid7(), float(rates[key].burst)) for key in sorted(rates)],
    )
    found = fetch(
        f"""
        INSERT INTO jobs_ratebucket AS b ({NAMES}, id, tokens, granted, refilled_at)
        SELECT {", ".join(f"r.{name}" for name in KEY_COLUMNS)}, r.id, r.tokens, 0, {now}
        FROM {rows} WHERE true
        ON CONFLICT (counted_by, job_type, limit_key, firm_id) DO UPDATE SET granted = b.granted
        RETURNING {NAMES}, tokens, granted, refilled_at,
            {dialect.seconds_between_sql("refilled_at", now)}, {now}
        """,
        params,
    )
    about_to_start = _about_to_start(rates)
    buckets = {}
    for *names, stored, granted, stored_at, elapsed, read_at in found:
        key = BucketKey(*names)
        rate = rates[key]
        refilled = stored + max(float(elapsed), 0.0) * rate.per_second
        room = rate.burst - max(granted, about_to_start[key])
        tokens = max(min(refilled, room), 0.0)
        waited = -MOST_LOCK_WAIT_SECONDS < elapsed < 0
        refilled_at = dialect.read_time(stored_at if waited else read_at)
        buckets[key] = Bucket(key, rate, tokens, about_to_start[key], refilled_at, tokens)
    return buckets


def _about_to_start(rates: Mapping[BucketKey, Rate]) -> Counter[BucketKey]:
    """Return the units of each bucket's admitted jobs that do not run yet."""
    units: Counter[BucketKey] = Counter()
    of_all_firms = {key for key in rates if key.counted_by == CountedBy.ALL_FIRMS}
    groups: list[tuple[str, str | int, set[BucketKey]]] = [
        ("q.job_type", key.job_type, {key}) for key in of_all_firms
    ]
    for firm_id in {key.firm_id for key in rates.keys() - of_all_firms}:
        of_firm = {key for key in rates.keys() - of_all_firms if key.firm_id == firm_id}
        groups.append(("q.firm_id", firm_id, of_firm))
    for column, value, keys in groups:
        found = fetch(
            f"""
            SELECT q.job_type, q.limit_key, q.limit_units, count(*) FROM jobs_jobqueue q
            WHERE {_ABOUT_TO_START} AND {column} = %s
            GROUP BY q.job_type, q.limit_key, q.limit_units
            """,
            [value],
        )
        for job_type, limit_key, limit_units, jobs in found:
            for key in keys:
                if key.counts(job_type, limit_key):
                    units[key] += jobs * rates[key].units(limit_units)
    return units


def store_buckets(buckets: Collection[Bucket]) -> None:
    """Store the locked buckets, less the tokens taken."""
    if not buckets:
        return
    columns = {
        **KEY_COLUMNS,
        "tokens": Column.FLOAT,
        "granted": Column.BIGINT,
        "refilled_at": Column.TIME,
    }
    table = [
        (*one.key, one.tokens - one.taken, one.granted + one.taken, one.refilled_at)
        for one in buckets
    ]
    rows, params = dialects.current().rows_sql("r", columns, table)
    run(
        f"""
        UPDATE jobs_ratebucket AS b
        SET tokens = r.tokens, granted = r.granted, refilled_at = r.refilled_at
        FROM {rows} WHERE {SAME_KEY}
        """,
        params,
    )


def next_tokens(
    firm_id: int, job_type: str, limit_key: str | None, limit_units: int
) -> list[tuple[BucketKey, Rate, datetime | None]]:
    """Return each bucket that counts such a job, and when it has the tokens for it; None: now.

    Reads in the open transaction, and locks nothing.
    """
    rates = FirmRates.read(firm_id).of_jobs(job_type, limit_key)
    if not rates:
        return []
    dialect = dialects.current()
    rows, params = dialect.rows_sql("r", KEY_COLUMNS, sorted(rates))
    found = fetch(
        f"""
        SELECT {", ".join(f"b.{name}" for name in KEY_COLUMNS)}, b.tokens, b.refilled_at
        FROM {rows} JOIN jobs_ratebucket b ON {SAME_KEY}
        """,
        params,
    )
    answers = []
    for *names, tokens, stored_at in found:
        key = BucketKey(*names)
        rate = rates[key]
        missing = rate.units(limit_units) - tokens
        refilled_at = dialect.read_time(stored_at)
        next_at = refilled_at + rate.time_for(missing) if missing > 0 else None
        answers.append((key, rate, next_at))
    return sorted(answers, key=itemgetter(0))


def empty_bucket_sql(job: str) -> str:
    """Return the condition that a bucket has no token for the job now, and needs no correction.

    A job whose bucket has some tokens, but too few for it, stays a candidate, because nobody else
    may take what is saved up for it. So does a job whose bucket was refilled later than now, before
    the clock was put back, because only a transaction that locks the bucket corrects that.
    """
    dialect = dialects.current()
    elapsed = dialect.seconds_between_sql("b.refilled_at", dialect.now_sql())
    per_second = f"""(
        SELECT l.amount / l.per_seconds {_LIMITS_OF_BUCKET} {MOST_SPECIFIC_FIRST} LIMIT 1
    )"""
    of_type, of_firm = f"b.job_type = {job}.job_type", f"b.firm_id = {job}.firm_id"
    counting = {
        CountedBy.FIRM: f"{of_type} AND b.limit_key = '' AND {of_firm}",
        CountedBy.KEY: (
            f"b.job_type IN ('', {job}.job_type) AND b.limit_key = {job}.limit_key AND {of_firm}"
        ),
        CountedBy.ALL_FIRMS: f"{of_type} AND b.limit_key = ''",
    }
    empty = " OR ".join(
        f"""EXISTS (
            SELECT 1 FROM jobs_ratebucket b WHERE b.counted_by = '{counted_by}' AND {counts_job}
              AND b.granted = 0 AND {elapsed} > {-MOST_LOCK_WAIT_SECONDS}
              AND b.tokens + {elapsed} * {per_second} < 1
        )"""
        for counted_by, counts_job in counting.items()
    )
    return f"({ANY_RATE} AND ({empty}))"


def note_starts() -> None:
    """Refill the buckets whose admitted jobs have all started since the last refill.

    Admission refills a bucket only while jobs wait for it. Without this, jobs that started long ago
    would count against the burst of the next one.

    Raises:
        LockTimeout: another transaction has locked one of the buckets; none was refilled.
    """
    dialect = dialects.current()
    firm, key, all_firms = CountedBy.FIRM, CountedBy.KEY, CountedBy.ALL_FIRMS
    # Not EXISTS for each bucket: that would read a firm's admitted jobs once per bucket.
    started = f"""
        WITH about AS {dialect.materialized} (
            SELECT DISTINCT q.firm_id, q.job_type, q.limit_key FROM jobs_jobqueue q
            WHERE {_ABOUT_TO_START} AND EXISTS (SELECT 1 FROM jobs_ratebucket WHERE granted > 0)
        )
        SELECT {NAMES} FROM jobs_ratebucket b
        WHERE b.granted > 0 AND EXISTS (SELECT 1 {_LIMITS_OF_BUCKET})
        EXCEPT SELECT '{firm}', firm_id, job_type, '' FROM about
        EXCEPT SELECT '{key}', firm_id, job_type, limit_key FROM about
        EXCEPT SELECT '{key}', firm_id, '', limit_key FROM about
        EXCEPT SELECT {NAMES} FROM jobs_ratebucket
            WHERE counted_by = '{all_firms}' AND job_type IN (SELECT job_type FROM about)
        LIMIT {BATCH}
    """
    keys = reading(lambda: fetch(started, []))
    if keys:
        in_transaction(
            lambda: store_buckets(_refilled(keys).values()),
            lock_timeout_ms=LOCK_TIMEOUT_MILLISECONDS,
        )


def drop_idle_buckets() -> None:
    """Delete buckets that are full, or without a limit, and have not been used for long.

    For the others, `granted` is brought up to date, so that they are full the next time.
    """
    dialect = dialects.current()
    idle_at = dialect.after_sql("b.refilled_at", str(IDLE_SECONDS))
    idle = f"SELECT {NAMES} FROM jobs_ratebucket b WHERE {idle_at} <= {dialect.now_sql()}"
    keys = reading(lambda: fetch(f"{idle} ORDER BY {NAMES} LIMIT {BATCH}", []))
    if keys:
        in_transaction(lambda: _drop({BucketKey(*key) for key in keys}))


def _refilled(names: Iterable[Sequence[Any]]) -> dict[BucketKey, Bucket]:
    """Lock and refill the buckets of these names, but not those without a limit."""
    keys = {BucketKey(*one) for one in names}
    rates: dict[BucketKey, Rate] = {}
    for firm_id in {key.firm_id for key in keys}:
        limits = FirmRates.read(firm_id)
        for key in keys:
            if key.firm_id == firm_id:
                found = limits.of_jobs(key.job_type, key.limit_key)
                rates |= {one: rate for one, rate in found.items() if one == key}
    return lock_buckets(rates)


def _drop(keys: Collection[BucketKey]) -> None:
    buckets = _refilled(keys)
    kept = [one for one in buckets.values() if one.tokens < one.rate.burst]
    store_buckets(kept)
    dropped = sorted(set(keys) - {one.key for one in kept})
    if dropped:
        rows, params = dialects.current().rows_sql("r", KEY_COLUMNS, dropped)
        run(
            f"DELETE FROM jobs_ratebucket AS b WHERE EXISTS (SELECT 1 FROM {rows} WHERE {SAME_KEY})",
            params,
        )
