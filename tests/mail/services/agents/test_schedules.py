"""Agents that run by a timetable."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from jobs import testing
from jobs.queue import enqueue
from jobs.testing import frozen_time
from mail.errors import AgentScheduleInvalid, RowGone
from mail.models import AgentProfile, AgentRun, AgentSchedule, MailAccount, RunStatus
from mail.services.agents.schedules import (
    LEFT_FIRM,
    PERSON_INACTIVE,
    change_agent_schedule,
    create_agent_schedule,
    delete_agent_schedule,
    enqueue_due_agents,
)
from mail.services.mailboxes.connection import mailbox_limit_key
from tenants.models import Firm, Membership, Role
from tenants.scope import firm_scope
from tests.factories.tenants import new_member
from tests.jobs.admin.pages import audit_entries
from tests.mail.agent_kit import PROFILE, make_profile
from tests.mail.llm.model_server import ModelServer
from tests.mail.mail_kit import Mailbox, jobs, only, stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("U-02")]


def soon() -> datetime:
    """Return a date that is to come."""
    return datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)


def planned(box: Mailbox, due_at: datetime, **settings: Any) -> AgentSchedule:
    """Store an agent schedule, due every hour from this date."""
    given = {
        "name": "Morning",
        "prompt": "What waits for me?",
        "account_id": box.account.pk,
        "due_at": due_at,
        "interval_seconds": 3600,
        **settings,
    }
    if "profile_id" not in given:
        given["profile_id"] = make_profile(box).pk
    return create_agent_schedule(box.firm.pk, **given)


def enqueue_due() -> int:
    """Enqueue the agent schedules that are due, as the job of the system firm does."""
    return enqueue_due_agents(lambda: None)


def test_a_firms_own_job_looks_at_its_schedules_alone(mailbox: Mailbox, other_firm: Firm) -> None:
    due_at = soon()
    person, profile = new_member(mailbox.firm, Role.VIEWER), make_profile(mailbox)
    planned(mailbox, due_at, profile_id=profile.pk)
    left = planned(mailbox, due_at, name="Past", profile_id=profile.pk, user_id=person.pk)
    with firm_scope(mailbox.firm):
        Membership.objects.filter(user_id=person.pk).delete()

    def enqueued_by(firm: Firm) -> tuple[int, bool]:
        job = testing.run_job("agents.enqueue_due", firm=firm)
        of_past = next(one for one in stored(AgentSchedule) if one.pk == left.pk)
        return job.result["enqueued"], of_past.enabled

    with frozen_time(due_at):
        assert enqueued_by(other_firm) == (0, True)
        assert enqueued_by(mailbox.firm) == (1, False)


def test_an_agent_runs_once_for_each_date_and_says_what_it_did(
    mailbox: Mailbox, server: ModelServer
) -> None:
    due_at = soon()
    person = new_member(mailbox.firm, Role.VIEWER)
    schedule = planned(mailbox, due_at, user_id=person.pk)
    server.answers = ["Nobody waits."]
    with frozen_time(due_at) as clock:
        assert (enqueue_due(), enqueue_due()) == (1, 0)
        testing.drain()
        job = only(jobs("agent_invocation", live=False))
        run = only(stored(AgentRun))
        assert (job.status, job.user_id) == ("completed", person.pk), job.last_error
        assert job.result.pop("duration_ms") >= 0
        assert job.result == {
            "output": "Nobody waits.",
            "pending_actions": 0,
            "run_id": str(run.pk),
            "status": "completed",
        }
        asked = {"id", "user_id", "agent_name", "prompt", "config", "account_id"}
        assert asked <= set(job.payload)
        assert "What waits for me?" in str(server.asked[-1])
        assert (run.status, run.message_id) == (RunStatus.COMPLETED, None)
        clock.tick(hours=1)
        assert enqueue_due() == 1
    assert only(stored(AgentSchedule)).due_at == schedule.due_at + timedelta(hours=2)


@pytest.mark.req("U-02")
def test_a_job_without_a_mailbox_is_about_the_timetables(
    mailbox: Mailbox, server: ModelServer
) -> None:
    schedule = planned(mailbox, soon())
    server.answers = ["Nobody waits."]
    asked = {
        "user_id": None,
        "agent_name": PROFILE,
        "prompt": "What waits?",
        "config": {},
    }
    job = enqueue("agent_invocation", {"id": schedule.pk, **asked}, firm=mailbox.firm).job
    gone = enqueue("agent_invocation", {"id": uuid4(), **asked}, firm=mailbox.firm).job
    assert job.limit_key == mailbox_limit_key(mailbox.account.pk)
    testing.drain()
    done, ended = jobs("agent_invocation", live=False)
    assert (done.pk, done.status) == (job.pk, "completed"), done.last_error
    assert (ended.pk, ended.status) == (gone.pk, "canceled")
    assert only(stored(AgentRun)).account_id == mailbox.account.pk


def test_what_the_agent_says_of_a_private_mailbox_is_in_no_result(
    mailbox: Mailbox, server: ModelServer
) -> None:
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(shared=False)
    due_at = soon()
    planned(mailbox, due_at)
    server.answers = ["Anna waits."]
    with frozen_time(due_at):
        enqueue_due()
        testing.drain()
    assert only(stored(AgentRun)).final_message == "Anna waits."
    assert "Anna" not in str(only(jobs("agent_invocation", live=False)).result)


@pytest.mark.req("M-23")
def test_whoever_enqueues_jobs_asks_nothing_about_a_private_mailbox(
    mailbox: Mailbox, server: ModelServer
) -> None:
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(shared=False)
    due_at = soon()
    planned(mailbox, due_at)
    make_profile(mailbox, name="other", instructions="Say what they earn.")
    server.answers = ["Nobody waits.", "Nobody waits."]
    with frozen_time(due_at):
        enqueue_due()
        (job,) = jobs("agent_invocation")
        assert "What waits" not in str(job.payload)
        forged = {"agent_name": "other", "prompt": "Search on and on if she is dismissed."}
        enqueue("agent_invocation", {**job.payload, **forged, "config": {}}, firm=mailbox.firm)
        testing.drain()
    assert {run.profile_name for run in stored(AgentRun)} == {PROFILE}
    assert len(server.asked) == 2
    for asked in map(str, server.asked):
        assert "What waits for me?" in asked
        assert "dismissed" not in asked
        assert "earn" not in asked


@pytest.mark.req("S-02")
def test_inactive_firms_mailboxes_and_profiles_are_left_out(mailbox: Mailbox) -> None:
    due_at = soon()
    person = new_member(mailbox.firm, Role.VIEWER)
    planned(mailbox, due_at, user_id=person.pk)
    switches = [
        (Firm.objects.filter(pk=mailbox.firm.pk), "active"),
        (MailAccount.objects.unscoped("test"), "active"),
        (AgentProfile.objects.unscoped("test"), "enabled"),
        (AgentSchedule.objects.unscoped("test"), "enabled"),
    ]
    with frozen_time(due_at):
        for rows, switch in switches:
            with firm_scope(mailbox.firm):
                rows.update(**{switch: False})
            assert enqueue_due() == 0, switch
            with firm_scope(mailbox.firm):
                rows.update(**{switch: True})
        assert enqueue_due() == 1


@pytest.mark.req("S-02")
def test_dates_that_came_while_it_was_switched_off_are_passed_over(mailbox: Mailbox) -> None:
    due_at = soon()
    schedule = planned(mailbox, due_at)
    with frozen_time(due_at - timedelta(minutes=5)) as clock:
        change_agent_schedule(schedule, enabled=False)
        clock.move_to(due_at + timedelta(hours=2, minutes=30))
        assert change_agent_schedule(schedule, enabled=True).due_at == due_at + timedelta(hours=3)
        assert enqueue_due() == 0
        clock.tick(minutes=30)
        assert enqueue_due() == 1
        # A schedule that is due stays due if somebody enables it although it is enabled.
        clock.tick(hours=1)
        change_agent_schedule(schedule, enabled=True)
        assert enqueue_due() == 1


@pytest.mark.req("S-02")
def test_one_whose_only_date_is_past_is_not_switched_on_without_another(mailbox: Mailbox) -> None:
    due_at = soon()
    schedule = planned(mailbox, due_at, interval_seconds=None)
    change_agent_schedule(schedule, enabled=False)
    with frozen_time(due_at + timedelta(hours=2)):
        with pytest.raises(AgentScheduleInvalid, match="due_at is past") as refused:
            change_agent_schedule(schedule, enabled=True)
        assert [one["field"] for one in refused.value.errors] == ["due_at"]
        assert only(stored(AgentSchedule)).enabled is False
        assert enqueue_due() == 0
        later = due_at + timedelta(hours=3)
        assert change_agent_schedule(schedule, enabled=True, due_at=later).due_at == later
    with frozen_time(later):
        assert enqueue_due() == 1


@pytest.mark.req("S-02")
def test_one_that_ran_on_its_only_date_may_be_switched_off_and_on(mailbox: Mailbox) -> None:
    due_at = soon()
    schedule = planned(mailbox, due_at, interval_seconds=None)
    with frozen_time(due_at + timedelta(hours=2)):
        assert enqueue_due() == 1
        change_agent_schedule(schedule, enabled=False)
        assert change_agent_schedule(schedule, enabled=True).due_at is None
        assert enqueue_due() == 0


@pytest.mark.req("S-02")
def test_one_whose_zone_vanished_is_not_switched_on(mailbox: Mailbox) -> None:
    schedule = planned(mailbox, soon())
    change_agent_schedule(schedule, enabled=False)
    with firm_scope(mailbox.firm):
        AgentSchedule.objects.update(time_zone="Europe/Atlantis")
    with (
        frozen_time(soon() + timedelta(hours=2)),
        pytest.raises(AgentScheduleInvalid) as refused,
    ):
        change_agent_schedule(schedule, enabled=True)
    assert refused.value.errors[0]["field"] == "time_zone"


def leaves_the_firm(person: Any) -> None:
    Membership.objects.unscoped("test").filter(user=person).delete()


def is_deactivated(person: Any) -> None:
    type(person).objects.filter(pk=person.pk).update(is_active=False)


def joins(firm: Firm, person: Any) -> None:
    type(person).objects.filter(pk=person.pk).update(is_active=True)
    with firm_scope(firm):
        Membership.objects.get_or_create(firm=firm, user=person, defaults={"role": Role.VIEWER})


@pytest.mark.req("S-02")
@pytest.mark.parametrize(
    ("leave", "reason"), [(leaves_the_firm, LEFT_FIRM), (is_deactivated, PERSON_INACTIVE)]
)
def test_it_stops_with_the_reason_when_its_person_left(
    mailbox: Mailbox, leave: Callable[[Any], None], reason: str
) -> None:
    due_at = soon()
    person = new_member(mailbox.firm, Role.VIEWER)
    schedule = planned(mailbox, due_at, user_id=person.pk)
    others = planned(mailbox, due_at, name="The firm's", profile_id=schedule.profile_id)
    with firm_scope(mailbox.firm):
        leave(person)
    with frozen_time(due_at):
        assert enqueue_due() == 1
    stopped = only(stored(AgentSchedule), pk=schedule.pk)
    assert (stopped.enabled, stopped.stopped) == (False, reason)
    assert only(stored(AgentSchedule), pk=others.pk).enabled is True
    (entry,) = [one for one in audit_entries(schedule.pk) if one.act == "agent_schedule.stop"]
    assert entry.reason == reason
    with pytest.raises(AgentScheduleInvalid) as refused:
        change_agent_schedule(schedule, enabled=True)
    assert refused.value.errors[0]["field"] == "enabled"

    joins(mailbox.firm, person)
    again = change_agent_schedule(schedule, enabled=True)
    assert (again.enabled, again.stopped) == (True, "")
    with frozen_time(due_at + timedelta(hours=1)):
        assert enqueue_due() == 2


@pytest.mark.parametrize("leave", [leaves_the_firm, is_deactivated])
def test_what_waits_when_its_person_leaves_is_canceled(
    mailbox: Mailbox, leave: Callable[[Any], None]
) -> None:
    due_at = soon()
    person = new_member(mailbox.firm, Role.VIEWER)
    planned(mailbox, due_at, user_id=person.pk)
    with frozen_time(due_at):
        enqueue_due()
        with firm_scope(mailbox.firm):
            leave(person)
        testing.drain()
    job = only(jobs("agent_invocation", live=False))
    assert job.status == "canceled"
    assert job.last_error in (LEFT_FIRM, PERSON_INACTIVE)
    assert stored(AgentRun) == []


def test_a_deleted_timetable_runs_no_more(mailbox: Mailbox) -> None:
    due_at = soon()
    schedule = planned(mailbox, due_at)
    with frozen_time(due_at):
        enqueue_due()
        delete_agent_schedule(schedule)
        testing.drain()
        assert enqueue_due() == 0
    assert only(jobs("agent_invocation", live=False)).status == "canceled"


@pytest.mark.parametrize("operate", [change_agent_schedule, delete_agent_schedule])
def test_what_somebody_else_deleted_meanwhile_is_said_to_be_gone(
    mailbox: Mailbox, operate: Callable[[AgentSchedule], object]
) -> None:
    schedule = planned(mailbox, soon())
    delete_agent_schedule(schedule)
    kept = len(audit_entries(schedule.pk))
    with pytest.raises(RowGone, match="is deleted"):
        operate(schedule)
    assert len(audit_entries(schedule.pk)) == kept


def test_a_run_that_no_model_can_do_is_a_dead_letter(mailbox: Mailbox) -> None:
    due_at = soon()
    planned(mailbox, due_at)
    with frozen_time(due_at):
        enqueue_due()
        testing.drain()
    job = only(jobs("agent_invocation", live=False))
    assert (job.status, only(stored(AgentRun)).status) == ("dlq", RunStatus.ERROR)


def test_settings_are_checked(mailbox: Mailbox) -> None:
    schedule = planned(mailbox, soon())
    moved = change_agent_schedule(schedule, cron="0 9 * * 1-5", interval_seconds=None)
    assert moved.due_at.hour == 9
    refused = [
        ({"name": ""}, "name"),
        ({"prompt": "x" * 5000}, "prompt"),
        ({"account_id": schedule.pk}, "account_id"),
        ({"profile_id": schedule.pk}, "profile_id"),
        ({"cron": "soon"}, "cron"),
    ]
    for settings, field in refused:
        with pytest.raises(AgentScheduleInvalid) as error:
            change_agent_schedule(schedule, **settings)
        assert [fault["field"] for fault in error.value.errors] == [field]


def test_a_time_zone_that_vanished_holds_up_no_other_agent(mailbox: Mailbox) -> None:
    due_at = soon()
    lost = planned(mailbox, due_at)
    planned(mailbox, due_at, name="Evening", profile_id=lost.profile_id)
    with firm_scope(mailbox.firm):
        AgentSchedule.objects.filter(pk=lost.pk).update(time_zone="Nowhere/Gone")
    with frozen_time(due_at):
        assert enqueue_due() == 1
