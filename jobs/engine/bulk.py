"""Stores the members of a bulk run in one statement, however many there are."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import connection

from jobs.engine import dialects
from jobs.engine.transactions import run

NEW_ID = {"postgresql": "gen_random_uuid()", "sqlite": "lower(hex(randomblob(16)))"}


def insert_members(run_id: UUID, chosen: str, params: list[Any]) -> int:
    """Store what `chosen` selects (firm, target, job); return how many.

    Must join the transaction that creates the run.
    """
    ids, id_params = dialects.ids_sql([run_id])
    return run(
        f"""
        INSERT INTO jobs_bulkmember (id, run_id, firm_id, target_id, job_id, state, note)
        WITH chosen (firm_id, target_id, job_id) AS ({chosen})
        SELECT {NEW_ID[connection.vendor]}, r.id, c.firm_id, c.target_id, c.job_id, 'pending', '' FROM chosen c, {ids}
        """,
        [*params, *id_params],
    )
