"""Schedules over REST: their rows, their runs, and when each operation is allowed."""

from __future__ import annotations

import pytest

from jobs.models import Schedule
from tenants.scope import all_firms
from tests.jobs.api.conftest import Api, FirmRows, audit_log, problem

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-01", "S-02")]


def test_the_list_and_the_one(operator: Api, viewer: Api, acme: FirmRows) -> None:
    with all_firms("test"):
        Schedule.objects.filter(pk=acme.schedule.pk).update(payload={"note": "read me"})
    rows = {row["id"]: row for row in operator.results("schedules/")}
    row = rows[str(acme.schedule.pk)]
    assert row["firm"] == "acme"
    assert row["timetable"] == "At 03:00 every day"
    assert row["enabled"] is True
    assert rows[str(acme.paused_schedule.pk)]["next_run_at"] is None

    one = operator.get(f"schedules/{acme.schedule.pk}/").json()
    assert one.items() >= row.items()
    assert one["payload"] == {"note": "read me"}
    assert len(one["next_runs"]) == 5
    assert one["next_runs"][0] == one["next_run_at"]
    masked = viewer.get(f"schedules/{acme.schedule.pk}/").json()
    assert masked["payload"] == {"note": "••••••"}


def test_acts_and_what_they_do_not_allow(operator: Api, acme: FirmRows) -> None:
    path = f"schedules/{acme.schedule.pk}/"
    ran = operator.post(f"{path}run/", {"reason": "asked for"}).json()
    assert ran["last_run_at"] is not None
    assert ran["last_error"] is None
    assert operator.results("jobs/", {"search": f"schedule:{acme.schedule.pk}"}) != []
    assert operator.post(f"{path}pause/", {}).json()["enabled"] is False
    assert problem(operator.post(f"{path}pause/", {}), 409)["code"] == "wrong_state"
    assert operator.post(f"{path}resume/", {}).json()["enabled"] is True
    problem(operator.post(f"{path}resume/", {}), 409)
    assert [(entry.act, entry.door, entry.reason) for entry in audit_log()] == [
        ("schedule.run", "api", "asked for"),
        ("schedule.pause", "api", ""),
        ("schedule.resume", "api", ""),
    ]


def test_the_runs_of_a_schedule_are_its_own_the_latest_first(
    operator: Api, viewer: Api, acme: FirmRows, globex: FirmRows
) -> None:
    with all_firms("test"):
        Schedule.objects.filter(pk=acme.schedule.pk).update(payload={})
    path = f"schedules/{acme.schedule.pk}/"
    assert operator.results(f"{path}runs/") == []
    operator.post(f"{path}run/", {})
    operator.post(f"schedules/{acme.paused_schedule.pk}/run/", {})
    operator.post(f"{path}run/", {})
    latest, first = viewer.results(f"{path}runs/")
    assert latest["id"] > first["id"]
    assert (latest["schedule_id"], latest["firm"]) == (str(acme.schedule.pk), "acme")
    assert (latest["jobs"], latest["slot"], latest["outcome"]) == (1, None, None)
    assert operator.get(f"jobs/{latest['job_id']}/").status_code == 200
    page = viewer.get(f"{path}runs/", {"limit": 1}).json()
    assert [run["id"] for run in page["results"]] == [latest["id"]]
    rest = viewer.get(f"{path}runs/", {"cursor": page["next"]}).json()
    assert [run["id"] for run in rest["results"]] == [first["id"]]
    assert (
        problem(viewer.get(f"{path}runs/", {"firm": "acme"}), 400)["errors"][0]["field"] == "firm"
    )
    problem(viewer.get(f"schedules/{globex.schedule.pk}/runs/"), 404)


def test_a_run_that_leads_to_nothing_is_refused(operator: Api, acme: FirmRows) -> None:
    with all_firms("test"):
        Schedule.objects.filter(pk=acme.schedule.pk).update(payload={"colour": "red"})
    answer = problem(operator.post(f"schedules/{acme.schedule.pk}/run/", {}), 409)
    assert "colour" in answer["detail"]
    assert audit_log() == []


def test_another_firms_schedule_is_not_there(operator: Api, globex: FirmRows) -> None:
    for operation in ("run", "pause", "resume"):
        problem(operator.post(f"schedules/{globex.schedule.pk}/{operation}/", {}), 404)
    problem(operator.get(f"schedules/{globex.schedule.pk}/"), 404)
    assert audit_log() == []
