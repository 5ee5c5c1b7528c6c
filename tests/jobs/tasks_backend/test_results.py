"""Looking up a task's result: who finds it, and which ids lead to none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.http import HttpRequest, HttpResponse
from django.test import Client, override_settings
from django.urls import path

from jobs.queue import cancel
from jobs.testing import drain
from tenants.models import Firm
from tenants.scope import firm_scope
from tests.factories.jobs import envelope, task_call
from tests.jobs.tasks_backend import tasks
from tests.jobs.tasks_backend.framework import (
    TaskResultDoesNotExist,
    TaskResultMismatch,
    TaskResultStatus,
    default_task_backend,
    task_backends,
)
from tests.queue_kit import change

pytestmark = [pytest.mark.django_db, pytest.mark.req("J-26")]


def test_the_result_is_found_again():
    result = tasks.echo.enqueue("x", key=[1])
    assert default_task_backend.get_result(result.id) == result
    assert tasks.echo.get_result(result.id) == result
    drain()
    finished = tasks.echo.get_result(result.id)
    assert finished != result
    result.refresh()
    assert finished == result


def test_a_task_keeps_what_it_was_enqueued_with():
    changed = tasks.fail_until.using(priority=7, queue_name="slow")
    result = default_task_backend.get_result(changed.enqueue(1).id)
    assert result.task == changed
    assert result.task.max_attempts == 3


def test_coroutines_find_it_as_well():
    result = tasks.add.enqueue(1)
    drain()
    assert async_to_sync(default_task_backend.aget_result)(result.id).return_value == 1
    async_to_sync(result.arefresh)()
    assert result.status == TaskResultStatus.SUCCESSFUL


NOBODYS = {
    "empty": "",
    "short": "123",
    "words": "no-uuid",
    "letters": "g" * 36,
    "unknown": "01a20111-909e-7343-9568-82092124701d",
    "long": "x" * 10_000,
    "nul": "\x00",
}


@pytest.mark.parametrize("result_id", NOBODYS.values(), ids=NOBODYS.keys())
def test_an_id_of_nothing(result_id):
    for find in (default_task_backend.get_result, tasks.add.get_result):
        with pytest.raises(TaskResultDoesNotExist):
            find(result_id)
    with pytest.raises(TaskResultDoesNotExist):
        async_to_sync(default_task_backend.aget_result)(result_id)


def test_another_tasks_id():
    result = tasks.noop.enqueue()
    with pytest.raises(TaskResultMismatch):
        tasks.add.get_result(result.id)
    with pytest.raises(TaskResultMismatch):
        async_to_sync(tasks.add.aget_result)(result.id)


def test_another_backends_id():
    result = tasks.noop.enqueue()
    backend = {"BACKEND": "jobs.tasks_backend.MailroomBackend"}
    with override_settings(TASKS={"default": backend, "other": backend}):
        assert task_backends["default"].get_result(result.id).backend == "default"
        with pytest.raises(TaskResultDoesNotExist):
            task_backends["other"].get_result(result.id)


@pytest.mark.req("T-03")
def test_another_firms_id(firm: Firm, other_firm: Firm):
    with firm_scope(firm):
        result = tasks.noop.enqueue()
        assert default_task_backend.get_result(result.id) == result
    with firm_scope(other_firm), pytest.raises(TaskResultDoesNotExist):
        default_task_backend.get_result(result.id)


@pytest.mark.parametrize("payload", [[1], "x", {}, {"args": json.loads("[" * 900 + "]" * 900)}])
def test_a_job_whose_payload_is_no_call(payload: Any):
    result = tasks.noop.enqueue()
    change(result.id, payload=payload)
    with pytest.raises(TaskResultDoesNotExist):
        default_task_backend.get_result(result.id)


@pytest.mark.parametrize(
    "broken",
    [
        {"module_path": "tests.nowhere.task"},
        {"module_path": "tests.jobs.tasks_backend.tasks.not_a_task"},
        {"backend": "gone"},
        {"priority": 1000},
    ],
    ids=str,
)
def test_a_task_this_code_cannot_make_any_more(broken: dict[str, Any]):
    result = tasks.noop.enqueue()
    change(result.id, payload={**envelope(1), **task_call(**broken)})  # type: ignore[arg-type]
    with pytest.raises(TaskResultDoesNotExist):
        default_task_backend.get_result(result.id)


def enqueue_view(request: HttpRequest) -> HttpResponse:
    return HttpResponse(tasks.add.enqueue(20, second=22).id)


def result_view(request: HttpRequest, result_id: str) -> HttpResponse:
    result = default_task_backend.get_result(result_id)
    value = result.return_value if result.is_finished else None
    return HttpResponse(json.dumps({"status": result.status, "value": value}))


urlpatterns = [path("enqueue/", enqueue_view), path("result/<str:result_id>/", result_view)]


@override_settings(ROOT_URLCONF=__name__, MIDDLEWARE=[])
def test_one_request_enqueues_and_others_ask(client: Client):
    result_id = client.get("/enqueue/").content.decode()
    assert json.loads(client.get(f"/result/{result_id}/").content) == {
        "status": "READY",
        "value": None,
    }
    drain()
    assert json.loads(client.get(f"/result/{result_id}/").content) == {
        "status": "SUCCESSFUL",
        "value": 42,
    }


def test_a_canceled_task_is_finished():
    result = tasks.noop.enqueue()
    cancel(result.id)
    assert default_task_backend.get_result(result.id).is_finished
