"""`batches/`: the progress of batches over REST."""

from __future__ import annotations

import pytest

from jobs.models import Batch, BatchMember
from tenants.scope import all_firms
from tests.jobs.api.conftest import Api, FirmRows, problem

pytestmark = pytest.mark.req("A-02", "O-03")


def add_members(rows: FirmRows) -> None:
    with all_firms("test"):
        for job, state in ((rows.waiting, "pending"), (rows.dead, "failed")):
            BatchMember.objects.create(firm=rows.firm, batch=rows.batch, job=job, state=state)


def test_a_batch_says_how_far_it_is(viewer: Api, acme: FirmRows, globex: FirmRows) -> None:
    add_members(acme)
    add_members(globex)
    (row,) = viewer.results("batches/")
    assert (row["id"], row["firm"], row["state"]) == (str(acme.batch.pk), "acme", "running")
    counts = [row[name] for name in ("total", "pending", "completed", "failed", "canceled")]
    assert counts == [2, 1, 0, 1, 0]
    assert (row["settled_at"], row["completed_job_id"]) == (None, None)
    one = viewer.get(f"batches/{acme.batch.pk}/").json()
    assert one == {**row, "failed_jobs": [str(acme.dead.pk)]}


def test_a_job_names_its_batch(viewer: Api, acme: FirmRows) -> None:
    add_members(acme)
    shown = viewer.get(f"jobs/{acme.dead.pk}/").json()["batches"]
    assert shown == [{"id": str(acme.batch.pk), "name": acme.batch.name}]


def test_a_callbacks_job_names_the_batch_that_enqueued_it(viewer: Api, acme: FirmRows) -> None:
    with all_firms("test"):
        Batch.objects.filter(pk=acme.batch.pk).update(settled_job_id=acme.dead.pk)
    shown = viewer.get(f"jobs/{acme.dead.pk}/").json()["callback_of"]
    named = {"id": str(acme.batch.pk), "name": acme.batch.name, "event": "settled"}
    assert shown == [named]
    assert viewer.get(f"jobs/{acme.waiting.pk}/").json()["callback_of"] == []


def test_another_firms_batch_is_not_there(viewer: Api, globex: FirmRows) -> None:
    problem(viewer.get(f"batches/{globex.batch.pk}/"), 404)
    assert problem(viewer.get("batches/", {"colour": "red"}), 400)["errors"][0]["field"] == "colour"
