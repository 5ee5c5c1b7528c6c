"""Tasks that a worker process runs."""

from __future__ import annotations

import pytest

from tests.jobs.tasks_backend import tasks
from tests.jobs.tasks_backend.framework import TaskResultStatus
from tests.support.scenario import Scenario
from tests.support.testjobs.tasks import letter, note
from tests.support.workers import Fleet

pytestmark = [pytest.mark.processes, pytest.mark.req("J-26")]


def test_a_worker_runs_tasks_of_both_kinds(queue: Scenario, fleet: Fleet) -> None:
    adding = [task.enqueue(n, second=1) for n in range(5) for task in (tasks.add, tasks.add_async)]
    failing = [tasks.fail.enqueue(), tasks.fail_async.enqueue(), tasks.leave.enqueue()]
    worker = fleet.start("--burst")
    assert worker.wait_for_exit(90) == 0
    for result in (*adding, *failing):
        result.refresh()
    assert all(result.return_value == result.args[0] + 1 for result in adding)
    assert {result.status for result in failing} == {TaskResultStatus.FAILED}
    (worker_id,) = {one for result in (*adding, *failing) for one in result.worker_ids}
    assert worker_id == worker.events("worker.started")[0]["worker_id"]


def test_a_worker_of_a_queue_runs_its_tasks_alone(queue: Scenario, fleet: Fleet) -> None:
    theirs = [letter.enqueue(1), note.using(queue_name="evening").enqueue(2)]
    others = [note.enqueue(3), letter.using(queue_name="default").enqueue(4)]
    worker = fleet.start("--burst", "--queue", "evening")
    assert worker.wait_for_exit(90) == 0
    for result in (*theirs, *others):
        result.refresh()
    assert [result.status for result in theirs] == [TaskResultStatus.SUCCESSFUL] * 2
    assert [result.status for result in others] == [TaskResultStatus.READY] * 2


def test_a_queue_that_no_type_names_is_a_usage_error(queue: Scenario, fleet: Fleet) -> None:
    worker = fleet.start("--burst", "--queue", "evenin")
    assert worker.wait_for_exit(90) == 2
    assert "no job type or task is in the queue 'evenin'; known: default, documents, evening" in (
        worker.said()
    )
