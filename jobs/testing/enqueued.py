"""Assertions about enqueued jobs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jobs import registry
from jobs.models import JobQueue
from jobs.registry import JobPayload
from tenants.models import Firm
from tenants.scope import all_firms

MAX_LISTED = 20
COLUMNS = frozenset(field.attname for field in JobQueue._meta.concrete_fields)


@dataclass(frozen=True)
class Wanted:
    """The conditions a job must meet; None sets no condition."""

    job_type: str | None
    payload: Mapping[str, Any] | None
    columns: Mapping[str, Any]

    def differences(self, job: JobQueue) -> list[str]:
        """Describe the conditions that the job does not meet."""
        found = []
        if self.job_type not in (None, job.job_type):
            found.append(f"job_type is {job.job_type!r}, not {self.job_type!r}")
        found += _payload_differences("payload", self.payload or {}, job.payload)
        found += [
            f"{name} is {getattr(job, name)!r}, not {value!r}"
            for name, value in self.columns.items()
            if getattr(job, name) != value
        ]
        return found

    def __str__(self) -> str:
        parts = [self.job_type or "any type"]
        parts += [f"payload {dict(self.payload)!r}"] if self.payload else []
        parts += [f"{name}={value!r}" for name, value in self.columns.items()]
        return ", ".join(parts)


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
    wanted = _wanted(job_type, payload, firm, columns)
    return [job for job in _all_jobs() if not wanted.differences(job)]


def assert_enqueued(
    job_type: str | None = None,
    *,
    count: int = 1,
    payload: Mapping[str, Any] | None = None,
    firm: Firm | int | None = None,
    **columns: Any,
) -> list[JobQueue]:
    """Check that exactly `count` such jobs were enqueued, and return them; see `enqueued`.

    Raises:
        AssertionError: there are more or fewer; the message lists what was enqueued, the closest match first.
    """
    wanted = _wanted(job_type, payload, firm, columns)
    jobs = _all_jobs()
    found = [job for job in jobs if not wanted.differences(job)]
    if len(found) != count:
        raise AssertionError("\n".join(_report(wanted, count, len(found), jobs)))
    return found


def assert_not_enqueued(
    job_type: str | None = None,
    *,
    payload: Mapping[str, Any] | None = None,
    firm: Firm | int | None = None,
    **columns: Any,
) -> None:
    """Check that no such job was enqueued; see `enqueued`.

    Raises:
        AssertionError: there is one.
    """
    assert_enqueued(job_type, count=0, payload=payload, firm=firm, **columns)


def described(job: JobQueue) -> str:
    """Return a job in one line: its type, status, and payload without the envelope."""
    own = {key: job.payload[key] for key in job.payload if key not in JobPayload.model_fields}
    return f"{job.job_type} ({job.status}) {own!r}"


def _wanted(
    job_type: str | None,
    payload: Mapping[str, Any] | None,
    firm: Firm | int | None,
    columns: Mapping[str, Any],
) -> Wanted:
    if job_type is not None:
        registry.get(job_type)
    unknown = columns.keys() - COLUMNS
    if unknown:
        raise TypeError(f"a job has no column {', '.join(sorted(unknown))}")
    if firm is not None:
        columns = {**columns, "firm_id": firm if isinstance(firm, int) else firm.pk}
    return Wanted(job_type, payload, columns)


def _all_jobs() -> list[JobQueue]:
    with all_firms("the test kit looks at the queue"):
        return list(JobQueue.objects.order_by("job_id"))


def _payload_differences(path: str, wanted: Mapping[str, Any], found: Any) -> Iterator[str]:
    for key, value in wanted.items():
        place = f"{path}.{key}"
        if not isinstance(found, Mapping) or key not in found:
            yield f"{place} is missing"
        elif isinstance(value, Mapping):
            yield from _payload_differences(place, value, found[key])
        elif found[key] != value:
            yield f"{place} is {found[key]!r}, not {value!r}"


def _report(wanted: Wanted, count: int, found: int, jobs: list[JobQueue]) -> Iterator[str]:
    yield f"expected {count} of: {wanted}; found {found}"
    if not jobs:
        yield "nothing was enqueued"
        return
    yield f"enqueued were {len(jobs)}, the nearest first:"
    # A job of the right type comes before one that has fewer differences.
    nearest = sorted(
        ((job.job_type != wanted.job_type, wanted.differences(job), job) for job in jobs),
        key=lambda one: (one[0], len(one[1])),
    )
    for _, differences, job in nearest[:MAX_LISTED]:
        yield f"  {described(job)}" + "".join(f"\n      {one}" for one in differences)
