"""Lines of waiting jobs, written by the table full, and who is served from them in which order."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from uuid import UUID

from django.db import connection

from jobs.engine import dialects
from jobs.engine.claim import Claim, claim
from jobs.engine.dialects import Column
from jobs.engine.transactions import in_transaction, run
from jobs.engine.turns import Turns
from tenants.models import Firm
from tests.queue_kit import new_worker


def make_firms(count: int, weights: Sequence[float] = ()) -> list[int]:
    """Create firms, with these weights or the usual one; return their ids in turn."""
    given = weights or [1.0] * count
    firms = Firm.objects.bulk_create(
        Firm(name=f"Firm {number}", slug=f"line-{number}", weight=given[number])
        for number in range(count)
    )
    return sorted(firm.pk for firm in firms)


def fill(jobs: Mapping[int, int], *, priority: int = 2, age_seconds: int = 3_600) -> None:
    """Give firms, by id, so many jobs that are due since then."""
    by_count: dict[int, list[list[int]]] = {}
    for firm_id, count in jobs.items():
        by_count.setdefault(count, []).append([firm_id])
    dialect = dialects.current()
    new_id = {
        "postgresql": "gen_random_uuid()",
        "sqlite": "lower(hex(randomblob(16)))",
    }[connection.vendor]
    due = dialect.after_sql(dialect.now_sql(), str(-age_seconds))

    def insert() -> None:
        for count, firms in by_count.items():
            rows, params = dialect.rows_sql("f", {"firm_id": Column.BIGINT}, firms)
            run(
                f"""
                WITH RECURSIVE number (n) AS (
                    SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < %s
                )
                INSERT INTO jobs_jobqueue (job_id, firm_id, category, job_type, payload_version,
                    payload, correlation_id, priority, scheduled_at)
                SELECT {new_id}, f.firm_id, 'maintenance', 'noop', '1.0', '{{}}', 'c', %s, {due}
                FROM number CROSS JOIN {rows}
                """,
                [count, priority, *params],
            )

    in_transaction(insert)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")


class Server:
    """A worker that is done with its jobs at once."""

    def __init__(self) -> None:
        self.turns = Turns()
        self._worker_id = new_worker()

    def claim(self, limit: int) -> list[Claim]:
        """Claim one batch."""
        return claim(self._worker_id, limit, self.turns)

    def finish(self, claims: Sequence[Claim]) -> list[int]:
        """End these jobs; return whose they were, in order."""
        _finish([one.job_id for one in claims])
        return [one.firm_id for one in claims]

    def serve(self, limit: int) -> list[int]:
        """Claim and finish one batch; return whose jobs they were, in the order of service."""
        return self.finish(self.claim(limit))

    def services(self, limit: int) -> Iterator[int]:
        """Serve batch after batch until nothing is left."""
        while served := self.serve(limit):
            yield from served


def _finish(job_ids: Sequence[UUID]) -> None:
    dialect = dialects.current()
    rows, params = dialect.rows_sql("r", {"job_id": Column.UUID}, [[one] for one in job_ids])
    in_transaction(
        lambda: run(
            "UPDATE jobs_jobqueue SET status = 'completed', ready = false"
            f" FROM {rows} WHERE jobs_jobqueue.job_id = r.job_id",
            params,
        )
    )


def jain(shares: Sequence[float]) -> float:
    """Return Jain's index of fairness: 1 where all are equal, 1/n where one has everything."""
    return sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares))
