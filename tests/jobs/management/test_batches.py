"""`manage.py batches`: the progress of batches, as text and as JSON."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from jobs.engine.batches import sweep_batches
from jobs.engine.outcomes import Completed, DeadLettered
from jobs.models import Batch
from jobs.queue import EnqueueSpec, enqueue_batch
from jobs.states import DeadReason
from tenants.models import Firm
from tests.queue_kit import FAILURE, finish, rows, take

pytestmark = pytest.mark.req("A-02", "O-04")

Runner = Callable[..., Any]


def test_batches_are_listed_and_shown(run: Runner, firm: Firm, other_firm: Firm) -> None:
    assert "No batches" in run("batches", "list").out
    made = enqueue_batch([EnqueueSpec("noop")] * 3, name="import of May", firm=firm)
    first, second = take(2)
    enqueue_batch([EnqueueSpec("noop")], name="theirs", firm=other_firm)
    finish(first, Completed({}))
    finish(second, DeadLettered(DeadReason.FATAL, FAILURE))
    sweep_batches(None)
    (row,) = run("batches", "list", "--firm", "acme", "--json").json["results"]
    assert (row["name"], row["state"], row["total"]) == ("import of May", "running", 3)
    assert (row["pending"], row["completed"], row["failed"]) == (1, 1, 1)
    everybodys = run("batches", "list").out
    assert "import of May" in everybodys
    assert "theirs" in everybodys
    shown = run("batches", "show", str(made.batch_id))
    assert f"failed: {second.job_id}" in shown.out
    assert run("batches", "show", str(uuid4())).code == 3


def test_a_job_is_shown_with_its_batch(run: Runner, firm: Firm) -> None:
    made = enqueue_batch([EnqueueSpec("noop")], name="import of May", firm=firm)
    job_id = str(made.jobs[0].job_id)
    assert run("jobs", "show", job_id, "--json").json["batches"] == [
        {"id": str(made.batch_id), "name": "import of May"}
    ]
    assert "import of May" in run("jobs", "show", job_id).out


def test_a_callbacks_job_names_the_batch_that_enqueued_it(run: Runner, firm: Firm) -> None:
    made = enqueue_batch(
        [EnqueueSpec("noop")],
        on_failed=EnqueueSpec("noop"),
        on_settled=EnqueueSpec("noop"),
        name="import of May",
        firm=firm,
    )
    assert run("jobs", "show", str(made.jobs[0].job_id), "--json").json["callback_of"] == []
    (member,) = take(1)
    finish(member, DeadLettered(DeadReason.FATAL, FAILURE))
    sweep_batches(None)
    (batch,) = rows(Batch)
    for event in ("failed", "settled"):
        job_id = str(getattr(batch, f"{event}_job_id"))
        named = {"id": str(made.batch_id), "name": "import of May", "event": event}
        shown = run("jobs", "show", job_id, "--json").json
        assert (shown["callback_of"], shown["batches"]) == ([named], [])
        assert f"import of May ({made.batch_id}): {event}" in run("jobs", "show", job_id).out
