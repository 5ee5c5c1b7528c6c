"""An assertion that a handler is idempotent."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.apps import apps
from django.core import mail
from django.db import connections, models, router

from jobs.engine.claim import Claim
from jobs.engine.job_wait import read_job
from jobs.engine.outcomes import Completed, DeadLettered, Outcome, Retry
from jobs.engine.release import release
from jobs.models import JobQueue
from jobs.testing.enqueued import described
from jobs.testing.run import Job, claimed_now, performed, settled, stored
from tenants.scope import all_firms

Row = dict[str, Any]


@dataclass(frozen=True)
class Effects:
    """Everything that a handler may have changed and a test can compare."""

    rows: Mapping[str, Mapping[Any, Row]]
    jobs: Mapping[UUID, str]
    letters: list[str]
    own: Any

    def changes_since(self, before: Effects) -> Iterator[str]:
        """Describe each difference from `before`."""
        for label, rows in self.rows.items():
            yield from _row_changes(label, before.rows[label], rows)
        for job_id in self.jobs.keys() - before.jobs.keys():
            yield f"enqueued another job: {self.jobs[job_id]}"
        for letter in self.letters[len(before.letters) :]:
            yield f"sent another e-mail: {letter}"
        if self.own != before.own:
            yield f"the snapshot is {self.own!r}, and was {before.own!r}"


def assert_idempotent(
    job: Job,
    payload: Mapping[str, Any] | None = None,
    *,
    only: Collection[type[models.Model]] | None = None,
    ignore: Collection[str] = (),
    snapshot: Callable[[], Any] | None = None,
    **options: Any,
) -> JobQueue:
    """Check that running a job a second time changes nothing more; return the completed job.

    `job` is a stored job, or a type: then one is enqueued first, with `payload` and `options` as
    `jobs.queue.enqueue` takes them.

    After the first run the completion is not stored, as if the worker was killed at that moment.
    The job is released and runs again; finished steps are not repeated. Then every table of the
    project (or `only` these), the enqueued jobs and the sent e-mails must be as they were after the
    first run.

    `ignore` names fields that may change, such as "updated_at". `snapshot` returns anything else
    that must stay the same, such as the calls of a fake client.

    Raises:
        AssertionError: the second run changed something, or one of the runs did not complete.
        NotRunnable: the job is not due, waits for something, or is over.
        RuntimeError: called inside a tenant scope.
    """
    job_id = stored(job, payload, **options)

    def effects() -> Effects:
        return _effects(job_id, only, ignore, snapshot)

    first = claimed_now(job_id)
    _require_completed(first, "first", performed(first))
    before = effects()
    # A job that completed in its own transaction is not released: it can never run twice.
    if release([first], "the completion was lost"):
        second = claimed_now(job_id)
        _require_completed(second, "second", settled(second, performed(second)).outcome)
    changes = list(effects().changes_since(before))
    if changes:
        raise AssertionError(
            "\n  ".join([f"{first.job_type} is not idempotent; its second run:", *changes])
        )
    return read_job(job_id)


def _require_completed(claimed: Claim, which: str, outcome: Outcome) -> None:
    if isinstance(outcome, Completed):
        return
    why = str(outcome)
    if isinstance(outcome, Retry | DeadLettered):
        failure = outcome.failure
        why = f"{failure.error_class}: {failure.message}\n{failure.traceback}"
    raise AssertionError(f"the {which} run of {claimed.job_type} did not complete: {why}")


def _effects(
    job_id: UUID,
    only: Collection[type[models.Model]] | None,
    ignore: Collection[str],
    snapshot: Callable[[], Any] | None,
) -> Effects:
    watched = _tables_of_the_project() if only is None else only
    with all_firms("the test kit compares rows"):
        rows = {model._meta.label: _rows(model, ignore) for model in watched}
        others = JobQueue.objects.exclude(pk=job_id)
        jobs = {job.job_id: described(job) for job in others}
    letters = [letter.subject for letter in getattr(mail, "outbox", [])]
    return Effects(rows, jobs, letters, deepcopy(snapshot()) if snapshot else None)


def _tables_of_the_project() -> list[type[models.Model]]:
    """Return every table but the queue's own, with those of many-to-many relations.

    Tables of a database that the test may not use are left out, as a handler cannot change them.
    """
    return [
        model
        for model in apps.get_models(include_auto_created=True)
        if model._meta.managed
        and not model._meta.proxy
        and model._meta.app_label != "jobs"
        and not _is_barred(router.db_for_read(model))
    ]


def _is_barred(alias: str) -> bool:
    """Say whether the test may not use the database; a `TestCase` lists those that it uses."""
    try:
        connections[alias].cursor().close()
    except AssertionError:  # DatabaseOperationForbidden, which is in no public module
        return True
    return False


def _rows(model: type[models.Model], ignore: Collection[str]) -> dict[Any, Row]:
    pk = model._meta.pk.attname
    return {
        row[pk]: {name: value for name, value in row.items() if name not in ignore}
        for row in model._base_manager.values()
    }


def _row_changes(label: str, before: Mapping[Any, Row], after: Mapping[Any, Row]) -> Iterator[str]:
    for pk in after.keys() - before.keys():
        yield f"added to {label}: {after[pk]!r}"
    for pk in before.keys() - after.keys():
        yield f"removed from {label}: {before[pk]!r}"
    for pk in after.keys() & before.keys():
        for name, value in after[pk].items():
            if value != before[pk][name]:
                yield f"changed {label} {pk}: {name} is {value!r}, and was {before[pk][name]!r}"
