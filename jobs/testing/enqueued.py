"""Assertions about enqueued jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jobs import registry
from jobs.models import JobQueue
from jobs.registry import JobPayload
from tenants.models import Firm
from tenants.scope import all_firms

MAX_LISTED = 20
COLUMNS = frozenset(field.attname for field in JobQueue._meta.concrete_fields)


def enqueued(
    job_type: str | None = None,
    *,
    payload: Mapping[str, Any] | None = None,
    firm: Firm | int | None = None,
    **columns: Any,
) -> list[JobQueue]:
    """Return the jobs that were enqueued, oldest first, whatever their status is now.

    `payload` names the fields to compare, at any depth; `columns` are columns of the job, such as
    `priority=0`, `lock_key="…"`, `status="pending"`.

    Raises:
        UnknownJobType: there is no such type; the error suggests similar names.
        TypeError: there is no such column.
    """
    wanted = _conditions(job_type, payload=payload, firm=firm, **columns)
    return [job for job in _all_jobs() if not _differences(job, wanted)]


def assert_enqueued(
    job_type: str | None = None, *, count: int = 1, **conditions: Any
) -> list[JobQueue]:
    """Check that exactly `count` such jobs were enqueued, and return them.

    The conditions are those of `enqueued`; a wrong one raises the same errors.

    Raises:
        AssertionError: there are more or fewer; the message lists the enqueued jobs, the closest
            match first.
    """
    wanted = _conditions(job_type, **conditions)
    jobs = _all_jobs()
    found = [job for job in jobs if not _differences(job, wanted)]
    if len(found) != count:
        raise AssertionError("\n".join(_report(wanted, count, len(found), jobs)))
    return found


def assert_not_enqueued(job_type: str | None = None, **conditions: Any) -> None:
    """Check that no such job was enqueued; see `enqueued`.

    Raises:
        AssertionError: there is one.
    """
    assert_enqueued(job_type, count=0, **conditions)


def described(job: JobQueue) -> str:
    """Return a job in one line: its type, status, and payload without the envelope."""
    own = {key: job.payload[key] for key in job.payload if key not in JobPayload.model_fields}
    return f"{job.job_type} ({job.status}) {own!r}"


def _conditions(
    job_type: str | None = None,
    *,
    payload: Mapping[str, Any] | None = None,
    firm: Firm | int | None = None,
    **columns: Any,
) -> dict[str, Any]:
    """Return the values that the job's columns must have, and the payload's fields."""
    unknown = columns.keys() - COLUMNS
    if unknown:
        raise TypeError(f"a job has no column {', '.join(sorted(unknown))}")
    if firm is not None:
        columns["firm_id"] = firm if isinstance(firm, int) else firm.pk
    kind = {} if job_type is None else {"job_type": registry.get(job_type).name}
    return kind | ({"payload": dict(payload)} if payload else {}) | columns


def _all_jobs() -> list[JobQueue]:
    with all_firms("the test kit looks at the queue"):
        return list(JobQueue.objects.order_by("job_id"))


def _differences(job: JobQueue, conditions: Mapping[str, Any]) -> list[str]:
    """Describe the conditions that the job does not meet."""
    found: list[str] = []
    for name, value in conditions.items():
        actual = getattr(job, name)
        if name == "payload":
            found += _payload_differences(name, value, actual)
        elif actual != value:
            found.append(f"{name} is {actual!r}, not {value!r}")
    return found


def _payload_differences(path: str, wanted: Mapping[str, Any], found: Any) -> Iterator[str]:
    for key, value in wanted.items():
        place = f"{path}.{key}"
        if not isinstance(found, Mapping) or key not in found:
            yield f"{place} is missing"
        elif isinstance(value, Mapping):
            yield from _payload_differences(place, value, found[key])
        elif found[key] != value:
            yield f"{place} is {found[key]!r}, not {value!r}"


def _report(
    wanted: Mapping[str, Any], count: int, found: int, jobs: list[JobQueue]
) -> Iterator[str]:
    job_type = wanted.get("job_type")
    parts = [job_type or "any type"]
    parts += [
        f"payload {value!r}" if name == "payload" else f"{name}={value!r}"
        for name, value in wanted.items()
        if name != "job_type"
    ]
    yield f"expected {count} of: {', '.join(parts)}; found {found}"
    if not jobs:
        yield "nothing was enqueued"
        return
    yield f"enqueued were {len(jobs)}, the nearest first:"
    # A job of the right type comes before one that has fewer differences.
    nearest = sorted(
        ((job.job_type != job_type, _differences(job, wanted), job) for job in jobs),
        key=lambda one: (one[0], len(one[1])),
    )
    for _, differences, job in nearest[:MAX_LISTED]:
        yield f"  {described(job)}" + "".join(f"\n      {one}" for one in differences)
