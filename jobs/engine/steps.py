"""Stores results of durable steps and the progress of running jobs, fenced by the lease token."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from typing import Any

from uuid_utils.compat import uuid7

from interfaces.plain_json import plain
from interfaces.stored_json import is_deeper_than
from jobs.conf import RESULT_MAX_BYTES, RESULT_MAX_DEPTH
from jobs.engine import dialects
from jobs.engine.claim import Claim
from jobs.engine.dialects import Column
from jobs.engine.transactions import fetch, in_transaction, reading, run
from jobs.payload_validator import form_faults


def find_step(claim: Claim, name: str) -> tuple[Any] | None:
    """Return the stored result of a finished step, in a tuple of one; None when there is none."""
    dialect = dialects.current()
    found = reading(
        lambda: fetch(
            f"SELECT {dialect.json_text_sql('result')} FROM jobs_jobstep"
            " WHERE firm_id = %s AND job_id = %s AND name = %s",
            [claim.firm_id, dialect.value(Column.UUID, claim.job_id), name],
        )
    )
    return (json.loads(found[0][0]),) if found else None


def save_step(
    claim: Claim, name: str, result: Any, *, seconds: float = 0.0, bounded: bool = True
) -> tuple[Any] | None:
    """Store a step's result; return it as `find_step` will, which is how the database keeps it.

    If two parts of a handler run the step at once, the first result is kept, and returned to both.
    `seconds` is how long the step took; if it is not `bounded`, the result may have any size.
    Returns None, with nothing stored, if the claim is stale.

    Locks the job's row until the end of the transaction, so that the next claim finds the step.

    Raises:
        NotStorable: the result cannot be stored.
    """
    dialect = dialects.current()
    text = to_json(result, bounded=bounded)
    ids = [dialect.value(Column.UUID, uuid7()), claim.firm_id]
    job_id = dialect.value(Column.UUID, claim.job_id)
    now = dialect.now_sql()
    stored = in_transaction(
        lambda: fetch(
            f"""
            INSERT INTO jobs_jobstep
                (id, firm_id, job_id, name, result, started_at, finished_at)
            SELECT %s, %s, j.job_id, %s, %s{dialect.json_cast},
                {dialect.after_sql(now, "%s")}, {now}
            FROM jobs_jobqueue j WHERE j.job_id = %s AND j.lease_token = %s
            {dialect.for_update}
            ON CONFLICT (firm_id, job_id, name) DO UPDATE SET result = jobs_jobstep.result
            RETURNING {dialect.json_text_sql("result")}
            """,
            [*ids, name, text, -seconds, job_id, claim.lease_token],
        )
    )
    return (json.loads(stored[0][0]),) if stored else None


def save_progress(claim: Claim, fraction: float, note: str) -> bool:
    """Store the progress of the job; return False if the claim is stale."""
    dialect = dialects.current()
    return in_transaction(
        lambda: (
            run(
                "UPDATE jobs_jobqueue SET progress = %s, progress_note = %s, "
                f"updated_at = {dialect.now_sql()} WHERE job_id = %s AND lease_token = %s",
                [fraction, note, dialect.value(Column.UUID, claim.job_id), claim.lease_token],
            )
            == 1
        )
    )


# An escaped NUL, not an escaped backslash before "u0000".
ESCAPED_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_CONTAINERS = (dict, list, tuple)
_DEEP = f"is nested over {RESULT_MAX_DEPTH} levels"


class NotStorable(ValueError):
    """The value cannot be stored; the message completes "the result …"."""


def to_json(value: Any, *, bounded: bool = True) -> str:
    """Return `value` as JSON text; ids, times and amounts as `plain` spells them.

    Raises:
        NotStorable: not JSON, too large (if `bounded`), too deep, NaN, NUL, a lone surrogate, a
            key that is no string.
    """
    try:
        text = json.dumps(
            value, ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=plain
        )
        size = len(text.encode())
    except RecursionError as error:
        raise NotStorable(_DEEP) from error
    except (TypeError, ValueError) as error:
        why = type(error).__name__
        # A class of the handler's own may raise anything during these checks.
        with suppress(Exception):
            fault = next(form_faults(value, root="$"))
            why = str(fault)
        raise NotStorable(f"is not plain JSON: {why}") from error
    if ESCAPED_NUL.search(text):
        raise NotStorable("holds the NUL character")
    if bounded and size > RESULT_MAX_BYTES:
        raise NotStorable(f"has {size:,} bytes; at most {RESULT_MAX_BYTES:,} are stored")
    if is_deeper_than(RESULT_MAX_DEPTH, text):
        raise NotStorable(_DEEP)
    if (place := _place_of_odd_key(value)) is not None:
        # json.dumps() makes strings of numbers, True and None: two keys could become one.
        raise NotStorable(f"has a key that is no string at ${place}")
    return text


def _place_of_odd_key(value: Any) -> str | None:
    """Return where in `value` a dict has a key that is no string; None where none has."""
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            return ""
        parts = ((f".{key}", part) for key, part in value.items() if isinstance(part, _CONTAINERS))
    elif isinstance(value, list | tuple):
        parts = (
            (f"[{index}]", part)
            for index, part in enumerate(value)
            if isinstance(part, _CONTAINERS)
        )
    else:
        return None
    for place, part in parts:
        if (inner := _place_of_odd_key(part)) is not None:
            return place + inner
    return None
