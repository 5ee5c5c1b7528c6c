"""The pages of schedules: what they show, and which operations they offer."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from jobs.engine.redaction import REDACTED_VALUE
from jobs.models import JobQueue, Schedule, ScheduleRun
from jobs.operations import schedules
from jobs.schedules.defaults import store_default_schedules
from jobs.states import ScheduleTarget
from tenants.models import Role
from tenants.scope import all_firms
from tests.factories.jobs import task_call
from tests.jobs.admin.conftest import FirmRows, browser_of
from tests.jobs.admin.pages import audit_entries, messages_of, now, operation_url, submit

pytestmark = [pytest.mark.django_db, pytest.mark.req("S-02", "O-03")]

LIST = "admin:jobs_schedule_changelist"
NEW = "admin:jobs_schedule_new"


@pytest.fixture
def developer(acme: FirmRows) -> Client:
    """Return the browser of a developer of the first firm."""
    return browser_of(acme.firm, Role.DEVELOPER)


def found(name: str) -> Schedule:
    with all_firms("test"):
        row: Schedule = Schedule.objects.get(name=name)
        return row


def runs_of(row: Schedule) -> int:
    with all_firms("test"):
        return JobQueue.objects.filter(idempotency_key__startswith=f"schedule:{row.pk}").count()


def test_the_list_says_when_each_runs_in_plain_words(member: Client, acme: FirmRows) -> None:
    page = member.get(reverse(LIST)).content.decode()
    assert "nightly of acme" in page
    assert "At 02:30 every day, Europe/Vienna" in page
    assert "the firm" in page


def test_whom_a_group_reaches_is_said_in_words(staff: Client) -> None:
    store_default_schedules(["message.index", "labels.sync.gmail"])
    listing = staff.get(reverse("admin:jobs_schedule_changelist")).content.decode()
    assert "every firm with mail to index" in listing
    assert "every mailbox" in listing
    assert "every unindexed" not in listing


def test_the_page_shows_the_next_five_runs_by_the_clock_of_its_zone(
    member: Client, acme: FirmRows
) -> None:
    page = member.get(operation_url(acme.schedule, "change")).content.decode()
    runs = re.findall(r"\w{3} \d{4}-\d\d-\d\d (\d\d:\d\d):00 CES?T", page)
    assert len(runs) == 5
    # On the day on which 02:30 is skipped, the schedule runs at 03:00.
    assert set(runs) <= {"02:30", "03:00"}


def test_the_page_shows_the_latest_runs_and_leads_to_all_and_to_each(
    operator: Client, acme: FirmRows
) -> None:
    row = acme.schedule
    address = operation_url(row, "change")
    with all_firms("test"):
        ScheduleRun.objects.filter(schedule=row).delete()
    assert "It has not run yet" in operator.get(address).content.decode()
    with all_firms("test"):
        Schedule.objects.filter(pk=row.pk).update(payload={})
    submit(operator, row, "run")
    page = operator.get(address).content.decode()
    assert "out of turn" in page
    # The run's job has not started, and perhaps no worker serves it.
    (run,) = operator.get(address).context["runs"]
    assert run["outcome"] == "pending"
    assert "1 job<" in page
    every = re.search(r'href="([^"]*jobs/schedulerun/\?q=[^"]*)"', page)
    one = re.search(r'href="([^"]*jobs/schedulerun/[^"]*/change/)"', page)
    assert every is not None
    assert one is not None
    assert row.name in operator.get(every[1]).content.decode()
    assert "those not yet purged" in operator.get(one[1]).content.decode()
    assert row.name not in operator.get(f"{every[1][:-5]}00000").content.decode()


def test_a_schedule_is_run_paused_and_resumed(operator: Client, acme: FirmRows) -> None:
    row = acme.schedule
    with all_firms("test"):
        Schedule.objects.filter(pk=row.pk).update(payload={})
    assert "was run" in messages_of(submit(operator, row, "run", reason="asked for"))
    assert runs_of(row) == 1
    assert "is paused" in messages_of(submit(operator, row, "pause"))
    assert now(row).enabled is False
    assert "None while it is paused" in operator.get(operation_url(row, "change")).content.decode()
    assert "is resumed" in messages_of(submit(operator, row, "resume"))
    assert now(row).enabled is True
    assert [(entry.act, entry.door) for entry in audit_entries(row.pk)] == [
        ("schedule.run", "admin"),
        ("schedule.pause", "admin"),
        ("schedule.resume", "admin"),
    ]


def test_run_now_says_why_nothing_came_of_it(operator: Client, acme: FirmRows) -> None:
    answer = submit(operator, acme.schedule, "run")
    assert answer.status_code == 409
    assert "enqueued no job" in answer.content.decode()
    assert runs_of(acme.schedule) == 0


def test_a_second_click_runs_nothing_twice(operator: Client, acme: FirmRows) -> None:
    row = acme.schedule
    with all_firms("test"):
        Schedule.objects.filter(pk=row.pk).update(payload={})
    answers = {"seen": operator.get(operation_url(row, "run")).context["seen"], "reason": ""}
    assert operator.post(operation_url(row, "run"), answers).status_code == 302
    assert operator.post(operation_url(row, "run"), answers).status_code == 409
    assert runs_of(row) == 1


def test_a_developer_changes_a_timetable(developer: Client, acme: FirmRows) -> None:
    answers = {"cron": "", "interval_seconds": "900", "payload": "{}", "name": "often"}
    assert submit(developer, acme.schedule, "edit", **answers).status_code == 302
    row = now(acme.schedule)
    assert (row.name, row.cron, row.interval_seconds) == ("often", None, 900)
    refused = submit(developer, row, "edit", time_zone="Mars/Olympus")
    assert refused.status_code == 400
    assert "is no time zone" in str(refused.context["form"].errors["time_zone"])


def test_a_run_meanwhile_does_not_hinder_a_change_but_another_change_does(
    developer: Client, acme: FirmRows
) -> None:
    row = acme.schedule
    with all_firms("test"):
        Schedule.objects.filter(pk=row.pk).update(payload={})
    opened = developer.get(operation_url(row, "edit")).context
    answers = {**opened["form"].initial, "cron": "0 5 * * *", "interval_seconds": ""}
    answers |= {"seen": opened["seen"], "payload": "{}", "reason": ""}
    schedules.run_now(row)
    assert developer.post(operation_url(row, "edit"), answers).status_code == 302
    assert now(row).cron == "0 5 * * *"
    assert developer.post(operation_url(row, "edit"), answers).status_code == 409


@pytest.mark.req("T-05")
def test_the_editor_hides_secrets_and_keeps_them(developer: Client, acme: FirmRows) -> None:
    row, secret = acme.schedule, {"host": "a", "password": "hunter2"}
    call = {**task_call(kwargs=secret), "version": "1.0"}
    with all_firms("test"):
        Schedule.objects.filter(pk=row.pk).update(job_type="django_task", payload=call)
    page = developer.get(operation_url(row, "edit"))
    assert "hunter" not in page.content.decode()
    shown = json.loads(page.context["form"]["payload"].value())
    shown["kwargs"]["host"] = "b"
    assert submit(developer, row, "edit", payload=json.dumps(shown)).status_code == 302
    assert now(row).payload == {**call, "kwargs": {**secret, "host": "b"}}
    assert submit(developer, row, "edit", cron="0 4 * * *").status_code == 302
    assert now(row).payload["kwargs"] == {**secret, "host": "b"}
    shown["kwargs"]["token"] = REDACTED_VALUE
    refused = submit(developer, row, "edit", payload=json.dumps(shown))
    assert "is the mask" in str(refused.context["form"].errors["payload"])
    assert "hunter" not in str([(entry.before, entry.after) for entry in audit_entries(row.pk)])


def new_schedule(client: Client, **answers: str) -> Any:
    given = {
        "name": "new one",
        "job_type": "noop",
        "group_name": "",
        "cron": "0 6 * * MON",
        "interval_seconds": "",
        "time_zone": "UTC",
        "payload": "{}",
        "priority": "2",
        "missed_runs": "skip",
        **answers,
    }
    return client.post(reverse(NEW), given)


def test_a_developer_makes_a_schedule_for_their_firm(
    developer: Client, operator: Client, acme: FirmRows
) -> None:
    assert developer.get(reverse(NEW)).status_code == 200
    assert operator.get(reverse(NEW)).status_code == 403
    assert new_schedule(developer).status_code == 302
    row = found("new one")
    assert (row.firm_id, row.target, row.cron) == (acme.firm.pk, ScheduleTarget.FIRM, "0 6 * * MON")
    again = new_schedule(developer)
    assert again.status_code == 400
    assert "has this name" in str(again.context["form"].errors["name"])


@pytest.mark.req("U-05")
def test_exports_of_the_firm_are_scheduled_by_those_who_may_download_them(
    developer: Client, acme: FirmRows
) -> None:
    refused = new_schedule(developer, job_type="firm_export")
    assert refused.context["form"].errors == {"job_type": ["firm_export needs the role admin."]}
    admin = browser_of(acme.firm, Role.ADMIN)
    assert new_schedule(admin, job_type="firm_export").status_code == 302


def test_platform_staff_make_schedules_for_every_firm_or_mailbox(
    staff: Client, acme: FirmRows
) -> None:
    new_schedule(staff, everywhere="on", firm="", name="everybody")
    assert found("everybody").target == ScheduleTarget.EVERY_FIRM
    new_schedule(
        staff, everywhere="on", firm="", name="mail", job_type="sync", group_name="mailbox"
    )
    row = found("mail")
    assert (row.target, row.group_name) == (ScheduleTarget.EVERY_MEMBER, "mailbox")
    assert row.firm.slug == "system"
