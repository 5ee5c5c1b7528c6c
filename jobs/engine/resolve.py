"""Closes dead letters; each opening has one winner."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from jobs.engine import dialects
from jobs.engine.dialects import Column
from jobs.engine.restart import Restarted
from jobs.engine.transactions import fetch, run
from jobs.errors import WrongState
from jobs.states import Resolution
from tenants.audit import Actor, record_operation

OPEN = ("", Resolution.ESCALATED.value)


def resolve(
    dead_letter_id: UUID,
    resolution: Resolution,
    by: Actor,
    note: str,
    *,
    from_resolutions: Sequence[str] = OPEN,
) -> None:
    """Write the decision on a dead letter that is still open.

    Must join the transaction of the act.

    Raises:
        WrongState: somebody decided before.
    """
    dialect = dialects.current()
    places = ", ".join(["%s"] * len(from_resolutions))
    touched = run(
        f"""
        UPDATE jobs_deadletterqueue
        SET resolution = %s, resolution_note = %s, reviewed_by_id = %s,
            reviewed_at = {dialect.now_sql()}
        WHERE id = %s AND resolution IN ({places})
        """,
        [
            resolution.value,
            note,
            by.user_id,
            dialect.value(Column.UUID, dead_letter_id),
            *from_resolutions,
        ],
    )
    if touched != 1:
        raise WrongState(f"dead letter {dead_letter_id} was decided already")


def close_as_reprocessed(restarted: Restarted, by: Actor, note: str) -> None:
    """Close the open dead letter of a job that was retried, when it has one, and log that.

    Must join the transaction of the act, which holds the job's row.
    """
    dialect = dialects.current()
    found = fetch(
        f"""
        SELECT id, resolution FROM jobs_deadletterqueue
        WHERE firm_id = %s AND original_job_id = %s AND resolution IN ('', 'escalated')
        {dialect.for_update}
        """,
        [restarted.firm_id, dialect.value(Column.UUID, restarted.job_id)],
    )
    for row_id, resolution in found:
        letter_id = dialect.read_uuid(row_id)
        resolve(letter_id, Resolution.REPROCESSED, by, note)
        record_operation(
            by,
            "dead_letter.reprocess",
            firm_id=restarted.firm_id,
            target=("dead_letter", letter_id),
            reason=note,
            before={"resolution": resolution, "series": restarted.series - 1},
            after={"resolution": "reprocessed", "series": restarted.series},
        )
