"""The operations on one job, dead letter or lock in the admin."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from jobs.models import ConcurrencyLock, JobQueue
from jobs.operations.dead_letters import discard
from jobs.states import Status
from tenants.models import Firm, Role
from tenants.scope import all_firms
from tests.factories.jobs import JobQueueFactory
from tests.factories.tenants import UserFactory
from tests.jobs.admin.conftest import FirmRows, browser_of
from tests.jobs.admin.pages import audit_entries, messages_of, now, operation_url, submit

pytestmark = pytest.mark.req("O-03")


def user_lock(firm: Firm) -> ConcurrencyLock:
    """Return a lock that user code holds."""
    with all_firms("test"):
        return ConcurrencyLock.objects.create(
            firm=firm, lock_key="import", holder_id="user:import", fencing_token=77
        )


@pytest.mark.parametrize("status", [Status.DLQ, Status.FAILED, Status.CANCELED])
@pytest.mark.req("J-17", "T-05")
def test_a_job_that_ended_badly_is_retried(
    operator: Client, acme: FirmRows, status: Status
) -> None:
    job = JobQueueFactory(firm=acme.firm, status=status, attempts=3, completed_at=timezone.now())
    response = submit(operator, job, "retry", reason="fixed upstream")
    assert response["Location"] == operation_url(job, "change")
    assert (now(job).status, now(job).series, now(job).attempts) == ("pending", 2, 0)
    assert "noop is pending again" in messages_of(response)
    (entry,) = audit_entries(job.pk)
    assert (entry.act, entry.door, entry.reason) == ("job.retry", "admin", "fixed upstream")
    assert entry.actor_name == "operator@acme.example"


def link_of(page: Any, name: str) -> str:
    """Return the address of the page's link to one that begins so."""
    (address, *others) = set(re.findall(rf'href="({name}[^"]*)"', page.content.decode()))
    assert others == []
    return unescape(address)


@pytest.mark.req("J-17")
def test_from_a_filtered_list_an_operation_leads_back_to_it(
    operator: Client, acme: FirmRows
) -> None:
    job = JobQueueFactory(
        firm=acme.firm, status=Status.FAILED, attempts=3, completed_at=timezone.now()
    )
    jobs = reverse("admin:jobs_jobqueue_changelist")
    filtered = f"{jobs}?status=failed"
    page = operator.get(link_of(operator.get(filtered), operation_url(job, "change")))
    assert f'href="{filtered}"' in page.content.decode()
    retry = link_of(page, operation_url(job, "retry"))
    asked = operator.get(retry)
    assert asked.context["back"] == page.request["PATH_INFO"] + "?" + page.request["QUERY_STRING"]
    done = operator.post(retry, {"seen": asked.context["seen"], "reason": "fixed upstream"})
    assert now(job).status == "pending"
    assert f'href="{filtered}"' in operator.get(done["Location"]).content.decode()


@pytest.mark.req("J-16")
def test_a_pending_job_is_canceled_at_once_and_a_running_one_is_asked(
    operator: Client, acme: FirmRows
) -> None:
    running = JobQueueFactory(firm=acme.firm, status="processing", attempts=1)
    assert "canceled" in messages_of(submit(operator, acme.waiting, "cancel"))
    assert now(acme.waiting).status == "canceled"
    assert "asked to stop" in messages_of(submit(operator, running, "cancel", reason="too slow"))
    assert now(running).status == "processing"
    assert now(running).cancel_requested_at is not None
    assert [entry.after for entry in audit_entries(running.pk)] == [{"cancel_requested": True}]


@pytest.mark.req("D-02", "T-05")
def test_a_dead_letter_is_discarded_with_a_reason(operator: Client, acme: FirmRows) -> None:
    submit(operator, acme.dead_letter, "discard", reason="customer left")
    assert now(acme.dead_letter).resolution == "discarded"
    assert now(acme.dead).status == "failed"
    (entry,) = audit_entries(acme.dead_letter.pk)
    assert (entry.act, entry.door, entry.reason) == (
        "dead_letter.discard",
        "admin",
        "customer left",
    )


@pytest.mark.req("D-02")
def test_a_dead_letter_is_escalated_to_a_member_or_to_the_admins(
    operator: Client, acme: FirmRows
) -> None:
    submit(operator, acme.dead_letter, "escalate", reason="look", to=acme.membership.user_id)
    assert now(acme.dead_letter).resolution == "escalated"
    assert now(acme.dead_letter).assigned_to_id == acme.membership.user_id
    with all_firms("test"):
        assert JobQueue.objects.filter(job_type="escalation_notice").count() == 1
    # The dead letter stays open for a decision, but cannot be escalated again.
    again = operator.get(operation_url(acme.dead_letter, "escalate"))
    assert again.status_code == 409
    whom = acme.membership.user.get_username()
    assert (
        f"This was escalated already, to {whom}: reprocess or discard it." in again.content.decode()
    )
    submit(operator, acme.dead_letter, "discard", reason="seen")
    assert now(acme.dead_letter).resolution == "discarded"


@pytest.mark.req("D-02")
def test_the_button_that_acts_does_not_look_like_the_one_that_leads_back(
    operator: Client, acme: FirmRows
) -> None:
    page = operator.get(operation_url(acme.dead_letter, "escalate")).content.decode()
    acts = re.search(r"<button ((?!</button).)*Escalate", page, re.DOTALL)
    assert acts is not None
    assert "bg-primary-600" in acts[0]


def test_an_escalation_that_tells_nobody_stands_and_says_so(
    operator: Client, acme: FirmRows
) -> None:
    submit(operator, acme.dead_letter, "escalate", reason="look")
    page = operator.get(reverse("admin:index")).content.decode()
    assert "Nobody was told" in page
    assert now(acme.dead_letter).resolution == "escalated"


@pytest.mark.req("T-03")
def test_nobody_outside_the_firm_is_offered_or_accepted_as_assignee(
    operator: Client, acme: FirmRows, globex: FirmRows
) -> None:
    page = operator.get(operation_url(acme.dead_letter, "escalate")).content.decode()
    assert "ann@acme.example" in page
    assert "bob@globex.example" not in page
    stranger = globex.membership.user_id
    answer = submit(operator, acme.dead_letter, "escalate", reason="look", to=stranger)
    assert answer.status_code == 400
    assert now(acme.dead_letter).resolution == ""


@pytest.mark.parametrize("act", ["discard", "escalate"])
@pytest.mark.parametrize("reason", ["", "   ", "x" * 2001])
@pytest.mark.req("D-02")
def test_a_reason_is_obligatory_and_bounded(
    operator: Client, acme: FirmRows, act: str, reason: str
) -> None:
    answer = submit(operator, acme.dead_letter, act, reason=reason)
    assert answer.status_code == 400
    assert answer.context["form"].errors.keys() == {"reason"}
    assert now(acme.dead_letter).resolution == ""
    assert audit_entries(acme.dead_letter.pk) == []


@pytest.mark.req("J-21")
def test_a_lock_is_released_by_force_unless_a_live_job_holds_it(
    firm_admin: Client, acme: FirmRows
) -> None:
    lock = user_lock(acme.firm)
    response = submit(firm_admin, lock, "release", reason="its process is gone")
    assert response["Location"] == reverse("admin:jobs_concurrencylock_changelist")
    assert now(lock) is None
    assert audit_entries(lock.pk)[0].door == "admin"
    refused = submit(firm_admin, acme.lock, "release", reason="hurry")
    assert refused.status_code == 409
    assert "cancel the job instead" in refused.content.decode()
    assert now(acme.lock) is not None


@pytest.mark.req("J-21")
def test_a_lock_whose_time_is_up_does_not_show_as_held(firm_admin: Client, acme: FirmRows) -> None:
    lock = user_lock(acme.firm)
    listing = reverse("admin:jobs_concurrencylock_changelist")
    for seconds, shown in ((3600, True), (-1, False)):
        with all_firms("test"):
            expires_at = timezone.now() + timedelta(seconds=seconds)
            ConcurrencyLock.objects.filter(pk=lock.pk).update(expires_at=expires_at)
        assert ("user:import" in firm_admin.get(listing).content.decode()) is shown
        assert firm_admin.get(operation_url(lock, "change")).status_code == (200 if shown else 404)


@pytest.mark.parametrize(
    ("act", "status"),
    [
        ("retry", "pending"),
        ("retry", "processing"),
        ("retry", "completed"),
        ("cancel", "completed"),
        ("cancel", "dlq"),
        ("cancel", "canceled"),
    ],
)
def test_what_the_state_does_not_allow_is_neither_offered_nor_done(
    operator: Client, acme: FirmRows, act: str, status: str
) -> None:
    job = JobQueueFactory(firm=acme.firm, status=status)
    page = operator.get(operation_url(job, "change")).content.decode()
    assert operation_url(job, act) not in page
    assert operator.get(operation_url(job, act)).status_code == 409
    assert operator.post(operation_url(job, act), {"reason": "", "seen": ""}).status_code == 409
    assert now(job).status == status
    assert audit_entries(job.pk) == []


def rows_and_operations(rows: FirmRows) -> list[tuple[Any, str, Role]]:
    """Return every operation with a row in a state that allows it, and the role that it needs."""
    lock = user_lock(rows.firm)
    return [
        (rows.dead, "retry", Role.OPERATOR),
        (rows.waiting, "cancel", Role.OPERATOR),
        (rows.dead_letter, "reprocess", Role.OPERATOR),
        (rows.dead_letter, "discard", Role.OPERATOR),
        (rows.dead_letter, "escalate", Role.OPERATOR),
        (lock, "release", Role.ADMIN),
        (rows.pause, "resume", Role.OPERATOR),
        (rows.rate_limit, "clear", Role.ADMIN),
        (rows.schedule, "run", Role.OPERATOR),
        (rows.schedule, "edit", Role.DEVELOPER),
        (rows.schedule, "pause", Role.OPERATOR),
        (rows.api_key, "revoke", Role.ADMIN),
    ]


@pytest.mark.req("T-01")
def test_roles_decide_what_is_offered_and_done(
    member: Client, operator: Client, firm_admin: Client, staff: Client, acme: FirmRows
) -> None:
    developer = browser_of(acme.firm, Role.DEVELOPER)
    people = [
        (member, Role.VIEWER),
        (operator, Role.OPERATOR),
        (developer, Role.DEVELOPER),
        (firm_admin, Role.ADMIN),
        (staff, Role.ADMIN),
    ]
    for row, act, needed in rows_and_operations(acme):
        before = now(row).__dict__
        for client, role in people:
            allowed = role.includes(needed)
            page = client.get(operation_url(row, "change")).content.decode()
            assert (operation_url(row, act) in page) is allowed, (act, role)
            assert client.get(operation_url(row, act)).status_code == (200 if allowed else 403)
            if not allowed:
                answers = {"reason": "because", "seen": "", "payload": "{}"}
                assert client.post(operation_url(row, act), answers).status_code == 403
        after = now(row).__dict__
        assert {**before, "_state": None} == {**after, "_state": None}, act


@pytest.mark.req("T-03")
def test_another_firms_rows_cannot_be_acted_on(
    firm_admin: Client, acme: FirmRows, globex: FirmRows
) -> None:
    for row, act, _ in rows_and_operations(globex):
        for answer in (
            firm_admin.get(operation_url(row, act)),
            firm_admin.post(operation_url(row, act), {"reason": "because", "seen": ""}),
        ):
            assert answer.status_code == 404, act
            assert "globex" not in answer.content.decode().lower()
    assert now(globex.dead).status == "dlq"
    assert now(globex.waiting).status == "pending"
    assert now(globex.dead_letter).resolution == ""


def test_a_second_click_changes_nothing_and_is_told_so(operator: Client, acme: FirmRows) -> None:
    running = JobQueueFactory(firm=acme.firm, status="processing", attempts=1)
    for row, act in (
        (running, "cancel"),
        (acme.dead_letter, "discard"),
        (JobQueueFactory(firm=acme.firm, status="failed"), "retry"),
    ):
        seen = operator.get(operation_url(row, act)).context["seen"]
        answers = {"seen": seen, "reason": "once"}
        assert operator.post(operation_url(row, act), answers).status_code == 302
        again = operator.post(operation_url(row, act), answers)
        assert again.status_code == 409
        assert 'role="alert"' in again.content.decode()
        assert len(audit_entries(row.pk)) == 1


@pytest.mark.req("J-17")
def test_a_page_older_than_the_last_series_does_nothing_but_keeps_what_was_written(
    operator: Client, acme: FirmRows
) -> None:
    job = JobQueueFactory(firm=acme.firm, status="failed")
    seen = operator.get(operation_url(job, "retry")).context["seen"]
    with all_firms("test"):
        JobQueue.objects.filter(pk=job.pk).update(series=2)
    stale = operator.post(operation_url(job, "retry"), {"seen": seen, "reason": "my long story"})
    assert stale.status_code == 409
    assert "changed after you opened the page" in stale.content.decode()
    assert "my long story" in stale.content.decode()
    assert now(job).status == "failed"
    fresh = {"seen": stale.context["seen"], "reason": "my long story"}
    assert operator.post(operation_url(job, "retry"), fresh).status_code == 302


def test_a_refusal_by_the_engine_leaves_nothing_half_done(operator: Client, acme: FirmRows) -> None:
    JobQueueFactory(firm=acme.firm, idempotency_key="import:7", live_key="import:7")
    with all_firms("test"):
        JobQueue.objects.filter(pk=acme.dead.pk).update(idempotency_key="import:7")
    refused = submit(operator, acme.dead_letter, "reprocess", reason="again")
    assert refused.status_code == 409
    assert "has the same idempotency key" in refused.content.decode()
    assert now(acme.dead_letter).resolution == ""
    assert now(acme.dead).status == "dlq"
    assert audit_entries(acme.dead_letter.pk) == []


def test_a_decision_made_elsewhere_is_named_with_who_made_it(
    operator: Client, acme: FirmRows
) -> None:
    colleague = UserFactory(username="carla")
    with all_firms("test"):
        discard(acme.dead_letter, "no use", by=colleague)
    page = operator.get(operation_url(acme.dead_letter, "reprocess"))
    assert page.status_code == 409
    assert "This was discarded already, by carla." in page.content.decode()


def test_a_post_without_the_forms_token_is_refused(acme: FirmRows) -> None:
    client = browser_of(acme.firm, Role.ADMIN, strict=True)
    for row, act, _ in rows_and_operations(acme):
        answers = {"reason": "because", "seen": ""}
        assert client.post(operation_url(row, act), answers).status_code == 403, act
    assert now(acme.dead_letter).resolution == ""
    assert now(acme.dead).status == "dlq"


@pytest.mark.parametrize("method", ["put", "delete", "patch", "options"])
def test_other_methods_are_not_answered(operator: Client, acme: FirmRows, method: str) -> None:
    assert getattr(operator, method)(operation_url(acme.dead, "retry")).status_code == 405


def test_a_page_with_operations_costs_a_fixed_number_of_queries(
    operator: Client, acme: FirmRows, django_assert_max_num_queries: Any
) -> None:
    for row in (acme.dead, acme.dead_letter, acme.lock):
        with django_assert_max_num_queries(32):
            operator.get(operation_url(row, "change"))
    with django_assert_max_num_queries(60):
        submit(operator, acme.dead_letter, "discard", reason="no use")


def test_help_and_faults_of_a_form_belong_to_their_fields(operator: Client) -> None:
    form = operator.post(reverse("admin:jobs_pause_new"), {"until": "soon"}).content.decode()
    told = re.findall(r'aria-describedby="([^"]+)"', form)
    assert "id_reason_helptext id_reason_error" in told
    ids = {name for names in told for name in names.split()}
    assert ids <= set(re.findall(r' id="([^"]+)"', form))
    assert re.search(r'id="id_reason_error">\s*<ul[^>]*>\s*<li>This field is required', form)


def test_a_set_of_checkboxes_is_a_group_with_the_fields_name_and_faults(
    firm_admin: Client,
) -> None:
    address = reverse("admin:jobs_notificationendpoint_new")
    form = firm_admin.post(address, {"events": "nothing"}).content.decode()
    group = '<div class="queue-field" role="group" aria-labelledby="id_events_label"'
    assert f'{group} aria-describedby="id_events_error">' in form
    assert re.search(r'id="id_events_label">\s*<label[^>]*>\s*Events', form)
    assert re.search(r'id="id_events_error">\s*<ul[^>]*>\s*<li>Select a valid choice', form)
