"""Asking workers to be quiet, resume, drain or stop: who may, what is refused, what is audited."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from interfaces.commands import NotFound, Refused
from jobs.engine.lease import read_request
from jobs.errors import UnknownJob, WrongState
from jobs.models import Worker, WorkerVersion
from jobs.operations import workers
from tenants.models import AuditEntry, Firm, Role
from tenants.scope import all_firms
from tests.factories.jobs import WorkerFactory
from tests.factories.tenants import UserFactory, new_member
from tests.jobs.api.conftest import Api, problem

pytestmark = [pytest.mark.django_db, pytest.mark.req("W-05")]

NOBODYS_ID = "e9c29024-377c-4d6e-b65d-276496e214fc"
NAMES = ("quiet", "resume", "drain", "stop")


@pytest.fixture
def worker(system_firm: Firm) -> Worker:
    """Return a live worker."""
    return WorkerFactory()


@pytest.fixture
def staff(system_firm: Firm) -> Client:
    """Return the browser of a member of platform staff."""
    client = Client()
    client.force_login(UserFactory(username="root", platform_staff=True))
    return client


def audited() -> list[tuple[str, str, str]]:
    with all_firms("test"):
        rows = AuditEntry.objects.order_by("pk")
        return [(one.act, one.target_id, one.reason) for one in rows]


def test_each_operation_is_stored_for_the_worker_and_audited(worker: Worker) -> None:
    asked = []
    for name in ("quiet", "resume", "drain", "stop"):
        workers.OPERATIONS[name](worker, reason="a new kernel")
        asked.append(read_request(worker.pk))
    assert asked == ["quiet", "", "drain", "stop"]
    assert audited() == [(f"worker.{name}", str(worker.pk), "a new kernel") for name in NAMES]


@pytest.mark.parametrize(
    ("requested", "refused"),
    [
        ("", {"resume"}),
        ("quiet", {"quiet"}),
        ("drain", {"quiet", "resume", "drain"}),
        ("stop", {"quiet", "resume", "drain", "stop"}),
    ],
)
def test_what_a_workers_state_does_not_allow_is_refused(
    worker: Worker, requested: str, refused: set[str]
) -> None:
    for name in NAMES:
        Worker.objects.update(requested=requested)
        if name in refused:
            with pytest.raises(WrongState):
                workers.OPERATIONS[name](worker.pk)
            assert read_request(worker.pk) == requested
        else:
            workers.OPERATIONS[name](worker.pk)


def test_a_dead_worker_and_an_unknown_one_are_refused(worker: Worker) -> None:
    Worker.objects.update(dead_at=timezone.now())
    with pytest.raises(WrongState, match="dead"):
        workers.drain(worker)
    with pytest.raises(UnknownJob):
        workers.drain("nonsense")
    with pytest.raises(UnknownJob):
        workers.on_host("drain", "host-1")


def test_a_host_is_asked_as_a_whole(worker: Worker) -> None:
    second, elsewhere = WorkerFactory(requested="quiet"), WorkerFactory(host="host-2")
    silent = WorkerFactory(lease_expires_at=timezone.now() - timedelta(hours=1))
    assert {one.pk for one in workers.on_host("quiet", "host-1")} == {worker.pk}
    with pytest.raises(WrongState):
        workers.on_host("quiet", "host-1")
    assert {one.pk for one in workers.on_host("drain", "host-1")} == {worker.pk, second.pk}
    assert read_request(elsewhere.pk) == read_request(silent.pk) == ""


@pytest.mark.req("O-01")
@pytest.mark.parametrize("name", ["quiet", "drain", "stop"])
def test_over_rest_platform_staff_alone_may(
    worker: Worker, staff: Client, firm: Firm, name: str
) -> None:
    path = f"workers/{worker.pk}/{name}/"
    admin = Client()
    admin.force_login(new_member(firm, Role.ADMIN))
    problem(Api(client=admin).post(path, {}), 403)
    assert read_request(worker.pk) == ""
    answer = Api(client=staff).post(path, {"reason": "a new kernel"})
    assert answer.status_code == 200, answer.content
    assert answer.json()["requested"] == name
    assert audited() == [(f"worker.{name}", str(worker.pk), "a new kernel")]
    problem(Api(client=staff).post(path, {}), 409)
    problem(Api(client=staff).post(f"workers/{NOBODYS_ID}/{name}/", {}), 404)


@pytest.mark.req("O-03")
def test_in_the_admin_a_worker_and_a_host_can_be_asked(
    worker: Worker, staff: Client, firm: Firm
) -> None:
    second = WorkerFactory()
    page = reverse("admin:jobs_worker_change", args=[worker.pk])
    text = staff.get(page).content.decode()
    assert "Quiet" in text
    assert f"{page.removesuffix('change/')}resume/" not in text
    asked = staff.post(reverse("admin:jobs_worker_quiet", args=[worker.pk]), {"seen": ""})
    assert asked.status_code == 302
    assert read_request(worker.pk) == "quiet"
    assert "claim nothing" in staff.get(reverse("admin:jobs_worker_changelist")).content.decode()
    host = reverse("admin:jobs_worker_host")
    assert "host-1" in staff.get(host).content.decode()
    answer = staff.post(host, {"host": "host-1", "name": "drain", "reason": "a new kernel"})
    assert answer.status_code == 302, answer.content
    assert {read_request(one.pk) for one in (worker, second)} == {"drain"}
    member = Client()
    member.force_login(new_member(firm, Role.ADMIN))
    for address in (page, host, reverse("admin:jobs_worker_stop", args=[worker.pk])):
        assert member.get(address).status_code in {302, 403, 404}
        assert member.post(address, {}).status_code in {302, 403, 404}
    assert read_request(worker.pk) == "drain"


@pytest.mark.req("O-08")
def test_a_worker_of_another_version_is_marked(worker: Worker, staff: Client) -> None:
    WorkerVersion.objects.create(version="1", first_seen_at=timezone.now() - timedelta(hours=1))
    WorkerVersion.objects.create(version="2")
    text = staff.get(reverse("admin:jobs_worker_changelist")).content.decode()
    assert "the newest is 2" in text
    (shown,) = Api(client=staff).results("workers/")
    assert shown["runs_newest_version"] is False
    WorkerVersion.objects.filter(version="2").delete()
    (shown,) = Api(client=staff).results("workers/")
    assert shown["runs_newest_version"] is True


def command(*arguments: str) -> dict[str, Any]:
    out = StringIO()
    call_command("workers", *arguments, "--json", stdout=out)
    found: dict[str, Any] = json.loads(out.getvalue())
    return found


@pytest.mark.req("O-04")
def test_without_workers_the_list_says_how_to_start_one(db: None) -> None:
    out = StringIO()
    call_command("workers", "list", stdout=out)
    assert "manage.py runworker" in out.getvalue()


@pytest.mark.req("O-04")
def test_the_command_lists_and_asks(worker: Worker) -> None:
    (listed,) = command("list")["results"]
    assert (listed["id"], listed["requested"]) == (str(worker.pk), None)
    (asked,) = command("quiet", str(worker.pk)[:18], "--reason", "a new kernel")["results"]
    assert asked["requested"] == "quiet"
    assert audited() == [("worker.quiet", str(worker.pk), "a new kernel")]
    (asked,) = command("drain", "--host", "host-1")["results"]
    assert asked["requested"] == "drain"
    out = StringIO()
    call_command("workers", "list", stdout=out)
    assert "drain" in out.getvalue()
    with pytest.raises(Refused):
        command("resume", str(worker.pk))
    with pytest.raises(NotFound):
        command("stop", "--host", "nowhere")
    with pytest.raises(CommandError, match="--host"):
        command("stop")
