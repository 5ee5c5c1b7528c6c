"""Receivers are told of a task's start and end, each once, after it has happened."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from django.apps import apps

from jobs import registry
from jobs.testing import drain, frozen_time
from tests.jobs.tasks_backend import tasks
from tests.jobs.tasks_backend.conftest import Told
from tests.jobs.tasks_backend.framework import (
    TaskResult,
    TaskResultStatus,
    default_task_backend,
    task_enqueued,
    task_finished,
    task_started,
)
from tests.queue_kit import new_worker, take_started

pytestmark = [pytest.mark.django_db, pytest.mark.req("J-26")]

READY, RUNNING = TaskResultStatus.READY, TaskResultStatus.RUNNING
FAILED, SUCCESSFUL = TaskResultStatus.FAILED, TaskResultStatus.SUCCESSFUL


def test_a_task_that_succeeds(told: Told):
    tasks.add.enqueue(1)
    assert told == [("enqueued", READY, 0)]
    drain()
    assert told[1:] == [("started", RUNNING, 0), ("finished", SUCCESSFUL, 0)]


def test_the_app_may_be_made_ready_more_than_once(told: Told):
    # Django makes the apps ready again in tests that change INSTALLED_APPS.
    apps.get_app_config("jobs").ready()
    tasks.add.enqueue(1)
    drain()
    assert told[1:] == [("started", RUNNING, 0), ("finished", SUCCESSFUL, 0)]
    assert len({type(one) for one in registry._finders}) == len(registry._finders)


def test_a_task_that_fails(told: Told):
    tasks.fail.enqueue()
    drain()
    assert told[1:] == [("started", RUNNING, 0), ("finished", FAILED, 1)]


def test_a_task_is_finished_once_however_often_it_is_tried(told: Told):
    tasks.fail_until.enqueue(3)
    with frozen_time() as clock:
        for _ in range(3):
            drain()
            clock.tick(hours=1)
    started = [("started", RUNNING, failures) for failures in range(3)]
    assert told[1:] == [*started, ("finished", SUCCESSFUL, 2)]


@pytest.mark.req("J-14")
def test_a_task_whose_worker_died(told: Told, rescue_all: Callable[[], None]):
    tasks.add.enqueue(1)
    take_started(new_worker())
    rescue_all()
    assert told[1:] == [("finished", FAILED, 1)]


def test_the_end_is_stored_when_it_is_told():
    stored = []

    def hear(sender: type, task_result: TaskResult[Any], **kwargs: Any) -> None:
        stored.append(default_task_backend.get_result(task_result.id) == task_result)

    task_finished.connect(hear)
    try:
        tasks.add.enqueue(1)
        drain()
    finally:
        task_finished.disconnect(hear)
    assert stored == [True]


@pytest.mark.parametrize(("task", "raised"), [(tasks.fail, "TaskFailed"), (tasks.noop, "NoneType")])
def test_the_end_of_a_failed_task_is_told_while_its_exception_is_handled(task: Any, raised: str):
    handled = []

    def hear(**kwargs: Any) -> None:
        error = sys.exc_info()[1]
        handled.append((type(error).__name__, "Traceback" in str(error)))

    task_finished.connect(hear)
    try:
        task.enqueue()
        drain()
    finally:
        task_finished.disconnect(hear)
    assert handled == [(raised, raised == "TaskFailed")]


@pytest.mark.parametrize("signal", [task_enqueued, task_started, task_finished])
def test_an_observer_that_fails_harms_nothing(signal, caplog):
    def fail(**kwargs: Any) -> None:
        raise RuntimeError("observer")

    signal.connect(fail)
    try:
        result = tasks.add.enqueue(1)
        assert drain().counts == {"completed": 1}
    finally:
        signal.disconnect(fail)
    result.refresh()
    assert result.return_value == 1
    assert "observer" in caplog.text
