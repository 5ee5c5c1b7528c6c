"""Task functions run as jobs: what they return, raise, and read from their context."""

from __future__ import annotations

import builtins
import sys
from datetime import timedelta
from random import Random

import pytest

from jobs.engine.outcomes import Released
from jobs.engine.release import release
from jobs.engine.rescue import rescue_reported
from jobs.errors import LeaseLost
from jobs.models import Attempt
from jobs.queue import cancel, retry
from jobs.states import DeadReason
from jobs.testing import drain, enqueued, frozen_time, run_job
from tenants.scope import all_firms
from tests.factories.jobs import task_call
from tests.jobs.tasks_backend import tasks
from tests.jobs.tasks_backend.framework import (
    TaskResult,
    TaskResultStatus,
    default_task_backend,
)
from tests.queue_kit import (
    dead_letters,
    finish,
    new_worker,
    perform,
    take_one,
    take_started,
)

pytestmark = [pytest.mark.django_db, pytest.mark.req("J-26")]


def after_a_drain(result: TaskResult) -> TaskResult:
    drain()
    result.refresh()
    return result


@pytest.mark.parametrize("name", ["add", "add_async"])
def test_a_task_that_returns(name):
    result = getattr(tasks, name).enqueue(1, second=2)
    with pytest.raises(ValueError, match="not finished"):
        _ = result.return_value
    after_a_drain(result)
    assert (result.status, result.is_finished) == (TaskResultStatus.SUCCESSFUL, True)
    assert (result.return_value, result.errors, result.attempts) == (3, [], 1)
    assert result.enqueued_at <= result.started_at <= result.finished_at
    assert result.last_attempted_at == result.started_at
    assert len(result.worker_ids) == 1


@pytest.mark.parametrize("name", ["noop", "noop_async"])
def test_a_task_that_returns_nothing(name):
    result = after_a_drain(getattr(tasks, name).enqueue())
    assert (result.status, result.return_value) == (TaskResultStatus.SUCCESSFUL, None)


@pytest.mark.parametrize("value", [None, 0, "", "é", [], {}, {"a": [1.5, None, True]}])
def test_values_come_back_as_they_were(value):
    assert after_a_drain(tasks.echo.enqueue(value)).return_value == {"value": value}


def test_return_values_become_json():
    assert after_a_drain(tasks.tuples.enqueue()).return_value == {"pair": [1, 2], "bytes": "text"}


@pytest.mark.parametrize(
    ("name", "error", "line"),
    [
        ("fail", ValueError, "it did not work"),
        ("fail_async", ValueError, "it did not work"),
        ("fail_unspeakably", tasks.Unspeakable, "unspeakable"),
        ("no_json", TypeError, "Unsupported type"),
        ("leave", SystemExit, "SystemExit: 3"),
        ("interrupt", KeyboardInterrupt, "KeyboardInterrupt"),
    ],
)
def test_a_task_that_raises(name, error, line):
    result = after_a_drain(getattr(tasks, name).enqueue())
    assert (result.status, result.is_finished) == (TaskResultStatus.FAILED, True)
    with pytest.raises(ValueError, match="Task failed"):
        _ = result.return_value
    (found,) = result.errors
    assert found.exception_class is error
    assert found.traceback.startswith("Traceback")
    assert line in found.traceback
    assert (result.attempts, len(result.worker_ids)) == (1, 1)
    assert result.finished_at >= result.started_at
    (letter,) = dead_letters()
    assert letter.reason == DeadReason.EXHAUSTED


@pytest.mark.req("J-10")
def test_a_task_is_tried_as_often_as_it_says():
    result = tasks.fail_until.enqueue(3)
    seen = []
    with frozen_time() as clock:
        for _ in range(3):
            drain()
            result.refresh()
            seen.append((result.status, len(result.errors), result.attempts))
            clock.tick(hours=1)
    ready, successful = TaskResultStatus.READY, TaskResultStatus.SUCCESSFUL
    assert seen == [(ready, 1, 1), (ready, 2, 2), (successful, 2, 3)]
    assert result.return_value == "done"
    assert [error.exception_class for error in result.errors] == [RuntimeError] * 2
    assert "call 1" in result.errors[0].traceback
    assert result.started_at < result.last_attempted_at


def test_the_context_knows_the_attempt():
    result = tasks.look_around.enqueue(failures=1)
    with frozen_time() as clock:
        drain()
        clock.tick(hours=1)
        after_a_drain(result)
    assert result.return_value == {"attempt": 2, "id": result.id, "status": "RUNNING"}
    first, second = tasks.seen
    assert (first.status, first.attempts, first.errors) == (TaskResultStatus.RUNNING, 1, [])
    assert (second.attempts, len(second.errors)) == (2, 1)
    assert second.started_at < second.last_attempted_at


def test_coroutines_get_a_context_as_well():
    assert after_a_drain(tasks.look_around_async.enqueue()).return_value == 1


@pytest.mark.req("J-06")
def test_a_task_can_use_the_queue():
    result = after_a_drain(tasks.enqueue_a_job.enqueue())
    (child,) = enqueued("noop")
    assert result.return_value == str(child.job_id)
    assert str(child.parent_id) == result.id


@pytest.mark.req("J-11")
def test_a_snooze_is_no_attempt():
    result = tasks.wait_a_minute.enqueue()
    with frozen_time() as clock:
        after_a_drain(result)
        assert (result.status, result.attempts) == (TaskResultStatus.READY, 0)
        clock.tick(minutes=1)
        after_a_drain(result)
    assert (result.status, result.attempts) == (TaskResultStatus.SUCCESSFUL, 1)


@pytest.mark.parametrize(
    "path", ["tests.nowhere.task", "tests.jobs.tasks_backend.tasks.not_a_task"]
)
def test_a_task_this_code_does_not_have(firm, path):
    job = run_job("django_task", task_call(module_path=path), firm=firm, max_attempts=1)
    assert job.status == "dlq"
    assert path.split(".")[1] in job.last_error


@pytest.mark.parametrize("queue", ["", "@evening"])
def test_a_task_that_moved_runs_by_its_old_path(firm, job_types, monkeypatch, queue):
    old = "tests.jobs.tasks_backend.framework.add"
    monkeypatch.setattr(old, tasks.add, raising=False)  # as an import leaves it there
    job = run_job(f"{old}{queue}", {"module_path": old, "args": [1]}, firm=firm)
    assert (job.status, job.last_error) == ("completed", "")
    assert default_task_backend.get_result(job.job_id).return_value == 1
    assert tasks.add.get_result(job.job_id).is_finished


def test_the_last_attempt_begins_before_the_task_is_finished():
    result = after_a_drain(tasks.fail.enqueue())
    # As on a busy database, where the history is written some time after the job's end.
    with all_firms("test"):
        Attempt.objects.update(started_at=result.finished_at + timedelta(seconds=1))
    result.refresh()
    assert result.started_at == result.last_attempted_at <= result.finished_at


@pytest.mark.req("J-14")
def test_a_task_whose_worker_dies_has_failed(rescue_all):
    result = tasks.add.enqueue(1)
    worker_id = new_worker()
    take_started(worker_id)
    result.refresh()
    assert (result.status, result.worker_ids) == (TaskResultStatus.RUNNING, [str(worker_id)])
    assert result.started_at == result.last_attempted_at is not None
    rescue_all()
    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    (error,) = result.errors
    assert error.exception_class is LeaseLost
    assert "the worker died" in error.traceback
    assert result.worker_ids == [str(worker_id)]


@pytest.mark.req("J-14")
def test_a_job_that_its_dead_worker_was_not_running_counts_no_attempt():
    result = tasks.look_around_async.enqueue()
    worker_id = new_worker()
    take_one(worker_id)
    rescue_reported(worker_id, (), Random(1))
    result.refresh()
    assert (result.status, result.attempts, result.errors) == (TaskResultStatus.READY, 0, [])
    held = take_one()
    finish(held, perform(held))
    result.refresh()
    assert (result.return_value, result.attempts) == (1, 1)


def test_a_job_that_was_never_started_counts_no_attempt(rescue_all):
    result = tasks.add.enqueue(1)
    take_one(new_worker())
    rescue_all()
    result.refresh()
    assert (result.status, result.attempts) == (TaskResultStatus.READY, 0)
    finish(take_one(), Released("worker stopped"))
    result.refresh()
    assert (result.status, result.attempts, result.errors) == (TaskResultStatus.READY, 0, [])


@pytest.mark.req("J-09")
def test_a_late_worker_does_not_change_the_result():
    result = tasks.add.enqueue(1)
    late = take_one()
    outcome = perform(late)
    finish(late, Released("taken away"))
    finish(late, outcome)
    result.refresh()
    assert result.status == TaskResultStatus.READY


@pytest.mark.req("J-16")
def test_a_canceled_task_has_failed():
    result = tasks.add.enqueue(1)
    cancel(result.id)
    result.refresh()
    assert (result.status, result.attempts) == (TaskResultStatus.FAILED, 0)
    assert drain().ran == ()


@pytest.mark.req("J-16")
def test_a_canceled_task_that_a_worker_gives_back_counts_no_attempt():
    result = tasks.add.enqueue(1)
    held = take_one(new_worker())
    cancel(result.id)
    release([held], "worker stopped")
    result.refresh()
    assert (result.status, result.attempts, result.errors) == (TaskResultStatus.FAILED, 0, [])


@pytest.mark.req("J-17")
def test_an_operators_retry_makes_it_ready_again():
    result = after_a_drain(tasks.fail.enqueue())
    retry(result.id)
    result.refresh()
    assert (result.status, len(result.errors), result.finished_at) == (
        TaskResultStatus.READY,
        1,
        None,
    )
    after_a_drain(result)
    assert (result.status, len(result.errors), result.attempts) == (TaskResultStatus.FAILED, 2, 2)


@pytest.mark.parametrize("job_type", ["django_task", f"{tasks.__name__}.add"])
def test_a_call_in_a_request_imports_no_other_module(job_type, tmp_path, monkeypatch):
    (tmp_path / "away.py").write_text("import builtins; builtins.ran_away = True\n")
    monkeypatch.syspath_prepend(tmp_path)
    job = run_job(job_type, {"module_path": "away.task"})
    assert "away" not in sys.modules
    assert not hasattr(builtins, "ran_away")
    assert (job.status, job.last_error) == (
        "dlq", "away.task is in no package of an installed app",
    )  # fmt: skip
