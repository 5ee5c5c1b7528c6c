"""What holds jobs back, in the admin: pauses, rate limits, and a firm's own limits."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from jobs import registry
from jobs.models import Pause, RateBucket, RateLimit
from jobs.operations.limits import set_rate_limit
from tenants.models import AuditEntry, Firm, Membership, Role
from tenants.scope import all_firms, firm_scope
from tests.factories.tenants import MembershipFactory
from tests.jobs.admin.conftest import FirmRows, browser_of
from tests.jobs.admin.pages import audit_entries, messages_of, now, operation_url, submit
from tests.queue_kit import rows

pytestmark = [pytest.mark.django_db, pytest.mark.req("O-03")]

PAUSES = reverse("admin:jobs_pause_changelist")
PAUSE = reverse("admin:jobs_pause_new")
LIMITS = reverse("admin:jobs_ratelimit_changelist")
LIMIT = reverse("admin:jobs_ratelimit_new")
RATE = {"job_type": "purge_jobs", "amount": "3", "per_seconds": "60"}


def browser_of_both(firm: Firm, other: Firm, role: Role) -> Client:
    """Return the browser of a viewer of the first firm, with a role in the other."""
    client = browser_of(firm, Role.VIEWER)
    user = get_user_model().objects.get(username=f"viewer@{firm.slug}.example")
    MembershipFactory(firm=other, user=user, role=role)
    return client


def pauses() -> list[tuple[str, bool, str, str]]:
    """Return the pauses that the tests of this module made."""
    return [
        (pause.firm.slug, pause.everywhere, pause.category, pause.job_type)
        for pause in rows(Pause)
        if pause.reason == "stop"
    ]


def faults(answer: Any) -> set[str]:
    """Return the fields that a refused form marks as wrong."""
    assert answer.status_code == 400
    return set(answer.context["form"].errors)


@pytest.mark.req("J-23", "T-05")
def test_an_operator_pauses_work_of_the_firm_and_resumes_it(
    operator: Client, acme: FirmRows, globex: FirmRows
) -> None:
    assert PAUSE in operator.get(PAUSES).content.decode()
    shown = operator.get(PAUSE)
    assert list(shown.context["form"].fields) == [
        *("category", "job_type", "limit_key", "reason", "until")
    ]
    until = timezone.now() + timedelta(hours=2)
    answers = {"job_type": "noop", "reason": "stop", "until": f"{until:%Y-%m-%dT%H:%M}"}
    done = operator.post(PAUSE, answers)
    assert done["Location"] == PAUSES
    assert messages_of(done) == "Paused type noop of Acme."
    assert pauses() == [("acme", False, "", "noop")]
    (pause,) = [pause for pause in rows(Pause) if pause.reason == "stop"]
    assert pause.until == until.replace(second=0, microsecond=0)

    resumed = submit(operator, pause, "resume", reason="calm again")
    assert resumed["Location"] == PAUSES
    assert now(pause) is None
    assert [(one.act, one.door, one.actor_name, one.reason) for one in audit_entries(pause.pk)] == [
        ("pause.set", "admin", "operator@acme.example", "stop"),
        ("pause.lift", "admin", "operator@acme.example", "calm again"),
    ]


@pytest.mark.req("J-23")
def test_a_pause_resumed_from_a_filtered_list_leads_back_to_it(
    operator: Client, acme: FirmRows
) -> None:
    operator.post(PAUSE, {"category": "sync", "reason": "stop"})
    (pause,) = [pause for pause in rows(Pause) if pause.reason == "stop"]
    resume = f"{operation_url(pause, 'resume')}?_changelist_filters=category%3Dsync"
    seen = operator.get(resume).context["seen"]
    done = operator.post(resume, {"seen": seen, "reason": "calm again"})
    assert now(pause) is None
    assert done["Location"] == f"{PAUSES}?category=sync"


@pytest.mark.req("J-23")
def test_a_second_click_changes_nothing_and_is_told_so(operator: Client, acme: FirmRows) -> None:
    assert operator.post(PAUSE, {"category": "sync", "reason": "stop"}).status_code == 302
    again = operator.post(PAUSE, {"category": "sync", "reason": "stop"})
    assert again.status_code == 409
    assert "paused already" in again.content.decode()
    assert pauses() == [("acme", False, "sync", "")]
    assert operator.post(LIMIT, RATE).status_code == 403


def test_what_is_missing_or_wrong_is_marked(operator: Client, acme: FirmRows) -> None:
    assert faults(operator.post(PAUSE, {})) == {"reason"}
    assert faults(operator.post(PAUSE, {"reason": "stop", "category": "exports"})) == {"category"}
    assert faults(operator.post(PAUSE, {"reason": "stop", "job_type": "nopo"})) == {"job_type"}
    other = {"reason": "stop", "job_type": "noop", "category": "sync"}
    assert faults(operator.post(PAUSE, other)) == {"category"}
    past = {"reason": "stop", "until": "2001-01-01T00:00"}
    assert faults(operator.post(PAUSE, past)) == {"until"}
    assert pauses() == []


@pytest.mark.req("T-01", "T-03")
def test_only_firms_in_which_one_may_act_are_offered_and_taken(
    acme: FirmRows, globex: FirmRows, system_firm: Firm
) -> None:
    client = browser_of_both(acme.firm, globex.firm, Role.OPERATOR)
    # The user may act in one firm only, so the form ignores the firm that was sent.
    client.post(PAUSE, {"reason": "stop", "firm": acme.firm.pk})
    assert pauses() == [("globex", False, "", "")]
    with all_firms("test"):
        Membership.objects.filter(firm=acme.firm, role=Role.VIEWER).update(role=Role.OPERATOR)
    page = client.get(PAUSE)
    assert set(page.context["form"].fields["firm"].queryset) == {acme.firm, globex.firm}
    for firm in ("", str(system_firm.pk), "x"):
        assert faults(client.post(PAUSE, {"reason": "stop", "firm": firm})) == {"firm"}
    client.post(PAUSE, {"reason": "stop", "category": "sync", "firm": acme.firm.pk})
    assert pauses()[-1] == ("acme", False, "sync", "")


@pytest.mark.req("T-01")
def test_a_viewer_may_look_and_nothing_more(member: Client, acme: FirmRows) -> None:
    for listing, new in ((PAUSES, PAUSE), (LIMITS, LIMIT)):
        page = member.get(listing)
        assert page.status_code == 200
        assert new not in page.content.decode()
        assert member.get(new).status_code == 403
        assert member.post(new, {"reason": "stop", **RATE}).status_code == 403
    assert pauses() == []
    assert rows(RateLimit) == [acme.rate_limit]


@pytest.mark.req("T-03", "J-23")
def test_staff_pauses_one_firm_by_its_slug_or_every_firm(
    staff: Client, operator: Client, acme: FirmRows, system_firm: Firm
) -> None:
    for where in ({}, {"everywhere": "on", "firm": "acme"}, {"firm": "nowhere"}):
        assert faults(staff.post(PAUSE, {"reason": "stop", **where})) == {"firm"}
    staff.post(PAUSE, {"reason": "stop", "firm": "acme", "category": "sync"})
    done = staff.post(PAUSE, {"reason": "stop", "everywhere": "on"})
    assert "Paused everything everywhere." in messages_of(done)
    assert pauses() == [("acme", False, "sync", ""), ("system", True, "", "")]
    pause = rows(Pause)[-1]
    assert "every firm" in staff.get(PAUSES).content.decode()
    # The pause belongs to the system firm, but only platform staff may resume it.
    assert operator.get(operation_url(pause, "resume")).status_code == 404
    of_system = browser_of(system_firm, Role.ADMIN)
    assert (
        operation_url(pause, "resume")
        not in of_system.get(operation_url(pause, "change")).content.decode()
    )
    assert of_system.get(operation_url(pause, "resume")).status_code == 403
    submit(staff, pause, "resume")
    assert pauses() == [("acme", False, "sync", "")]


@pytest.mark.req("J-24", "T-05")
def test_a_rate_limit_is_set_changed_and_cleared(firm_admin: Client, acme: FirmRows) -> None:
    assert LIMIT in firm_admin.get(LIMITS).content.decode()
    done = firm_admin.post(LIMIT, RATE)
    assert messages_of(done) == "Set: purge_jobs, 3 in 1 min, Acme."
    (limit,) = [limit for limit in rows(RateLimit) if limit.job_type == "purge_jobs"]
    assert (limit.firm, limit.everywhere, limit.burst) == (acme.firm, False, 3)
    submit(firm_admin, limit, "rate", amount="6", burst="1")
    assert (now(limit).amount, now(limit).per_seconds, now(limit).burst) == (6, 60.0, 1)
    cleared = submit(firm_admin, limit, "clear", reason="they pay more")
    assert cleared["Location"] == LIMITS
    assert now(limit) is None
    log = [(entry.act, entry.reason) for entry in audit_entries(limit.pk)]
    assert log[0] == ("rate_limit.set", "")
    assert log[-1] == ("rate_limit.clear", "they pay more")


@pytest.mark.parametrize("seconds", [0.5, 123_456.789, 1_000_000.0])
def test_a_limit_that_rest_set_is_changed_as_its_form_shows_it(
    firm_admin: Client, acme: FirmRows, seconds: float
) -> None:
    with firm_scope(acme.firm):
        limit = set_rate_limit("purge_jobs", 2_000_000, seconds, firm=acme.firm)
    assert submit(firm_admin, limit, "rate", burst="7").status_code == 302
    changed = now(limit)
    assert (changed.amount, changed.per_seconds, changed.burst) == (2_000_000, seconds, 7)
    assert "e+" not in firm_admin.get(LIMITS).content.decode()


@pytest.mark.parametrize("number", ["0", "-1", "x", "", "99999999999", "nan"])
@pytest.mark.parametrize("field", ["amount", "per_seconds"])
def test_a_rate_that_makes_no_sense_is_refused(
    firm_admin: Client, acme: FirmRows, field: str, number: str
) -> None:
    assert faults(firm_admin.post(LIMIT, {**RATE, field: number})) == {field}
    assert rows(RateLimit) == [acme.rate_limit]


@pytest.mark.req("J-24")
def test_a_limit_key_is_paused_and_limited(firm_admin: Client, acme: FirmRows) -> None:
    done = firm_admin.post(PAUSE, {"limit_key": "mailbox:1", "reason": "refused credentials"})
    assert messages_of(done) == "Paused everything with limit key mailbox:1 of Acme."
    assert "mailbox:1" in firm_admin.get(PAUSES).content.decode()
    by_key = {**RATE, "job_type": "", "counted_by": "key", "limit_key": "mailbox:1"}
    assert messages_of(firm_admin.post(LIMIT, by_key)) == "Set: mailbox:1, 3 in 1 min, Acme."
    (limit,) = [one for one in rows(RateLimit) if one.counted_by == "key"]
    assert (limit.job_type, limit.limit_key, limit.amount) == ("", "mailbox:1", 3)
    with all_firms("test"):
        RateBucket.objects.create(
            firm=acme.firm,
            counted_by="key",
            limit_key="mailbox:1",
            tokens=2,
            granted=0,
            refilled_at=timezone.now(),
        )
    page = firm_admin.get(LIMITS).content.decode()
    assert "mailbox:1" in page
    assert "2 may start" in page
    submit(firm_admin, limit, "rate", amount="6")
    assert (now(limit).amount, now(limit).limit_key) == (6, "mailbox:1")
    submit(firm_admin, limit, "clear")
    assert now(limit) is None


@pytest.mark.req("J-24")
def test_what_cannot_be_counted_together_is_marked(firm_admin: Client, acme: FirmRows) -> None:
    for change, field in (
        ({"job_type": ""}, "job_type"),
        ({"limit_key": "mailbox:1"}, "limit_key"),
        ({"counted_by": "all_firms"}, "counted_by"),
        ({"counted_by": "key", "limit_key": "x" * 201}, "limit_key"),
    ):
        assert faults(firm_admin.post(LIMIT, {**RATE, **change})) == {field}
    assert rows(RateLimit) == [acme.rate_limit]


@pytest.mark.req("J-24", "T-03")
def test_staff_limits_all_firms_together(staff: Client, acme: FirmRows, system_firm: Firm) -> None:
    done = staff.post(LIMIT, {**RATE, "everywhere": "on", "counted_by": "all_firms"})
    assert messages_of(done) == "Set: purge_jobs of all firms, 3 in 1 min, every firm."
    assert "3 may start" in staff.get(LIMITS).content.decode()
    assert "All firms together" in staff.get(LIMIT).content.decode()


@pytest.mark.req("J-24", "T-03")
def test_a_firms_admin_is_not_offered_to_limit_all_firms(firm_admin: Client) -> None:
    assert "All firms together" not in firm_admin.get(LIMIT).content.decode()


@pytest.mark.req("J-24", "T-03")
def test_staff_limits_a_type_for_every_firm(
    staff: Client, firm_admin: Client, acme: FirmRows, system_firm: Firm
) -> None:
    staff.post(LIMIT, {**RATE, "everywhere": "on"})
    (limit,) = [limit for limit in rows(RateLimit) if limit.everywhere]
    assert limit.firm == system_firm
    assert "counted for each firm" in staff.get(LIMITS).content.decode()
    for act in ("rate", "clear"):
        assert firm_admin.get(operation_url(limit, act)).status_code == 404
    submit(staff, limit, "clear")
    assert now(limit) is None


@pytest.mark.req("J-24")
@pytest.mark.parametrize(
    ("tokens", "granted", "seconds_ago", "told_now"),
    [
        (None, 0, 0, "5 may start"),
        (2.5, 0, 0, "2 may start"),
        (0.0, 0, 24, "2 may start"),
        (0.0, 0, 9000, "5 may start"),
        (4.0, 3, 0, "2 may start"),
        (0.5, 0, 0, "next in"),
        (2.0, 5, 0, "about to start"),
    ],
)
def test_the_list_says_how_many_may_start_now(
    member: Client,
    acme: FirmRows,
    tokens: float | None,
    granted: int,
    seconds_ago: int,
    told_now: str,
) -> None:
    with all_firms("test"):
        RateBucket.objects.all().delete()
        if tokens is not None:
            RateBucket.objects.create(
                firm=acme.firm,
                job_type="noop",
                tokens=tokens,
                granted=granted,
                refilled_at=timezone.now() - timedelta(seconds=seconds_ago),
            )
    assert told_now in member.get(LIMITS).content.decode()


def test_the_list_counts_units_where_jobs_take_more_than_one(
    member: Client, acme: FirmRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    heavy = replace(registry.get("noop"), limit_units=3)
    monkeypatch.setattr("jobs.admin.limits.find", lambda _: heavy)
    with all_firms("test"):
        RateBucket.objects.all().delete()
    assert "5 units may start" in member.get(LIMITS).content.decode()


@pytest.mark.req("J-23", "T-05")
def test_staff_changes_a_firms_limits_and_what_changed_is_written_down(
    staff: Client, acme: FirmRows
) -> None:
    shown = staff.get(operation_url(acme.firm, "limits"))
    assert list(shown.context["form"].fields) == [
        "active",
        "weight",
        "running_cap",
        "retention_days",
        "reason",
    ]
    answers = {"active": "on", "weight": "2.5", "running_cap": "10", "reason": "it floods"}
    done = submit(staff, acme.firm, "limits", **answers)
    assert (
        messages_of(done)
        == "Acme: active, weight 2.5, at most 10 running, jobs kept as long as the general setting."
    )
    assert (now(acme.firm).weight, now(acme.firm).running_cap) == (2.5, 10)
    (entry,) = limits_log()
    assert (entry.actor_name, entry.door, entry.reason) == ("root", "admin", "it floods")
    assert entry.before == {"weight": 1.0, "running_cap": None}
    assert entry.after == {"weight": 2.5, "running_cap": 10}

    same = submit(staff, acme.firm, "limits", **answers)
    assert same.status_code == 400
    stale = staff.post(
        operation_url(acme.firm, "limits"), {**answers, "weight": "1", "seen": "old"}
    )
    assert stale.status_code == 409
    assert len(limits_log()) == 1


@pytest.mark.req("T-04")
def test_a_firm_is_switched_off_and_the_system_firm_is_not(
    staff: Client, acme: FirmRows, system_firm: Firm
) -> None:
    off = {"active": "", "weight": "1", "running_cap": "", "reason": "left us"}
    submit(staff, acme.firm, "limits", **off)
    assert not now(acme.firm).active
    assert faults(submit(staff, system_firm, "limits", **off)) == {"active"}
    assert now(system_firm).active


@pytest.mark.parametrize(
    ("field", "value"),
    [("weight", "0"), ("weight", "nan"), ("weight", ""), ("running_cap", "0"), ("reason", " ")],
)
def test_limits_that_make_no_sense_are_refused(
    staff: Client, acme: FirmRows, field: str, value: str
) -> None:
    answers = {"active": "on", "weight": "2", "running_cap": "", "reason": "so", field: value}
    assert faults(submit(staff, acme.firm, "limits", **answers)) == {field}
    assert now(acme.firm).weight == 1.0


@pytest.mark.req("T-01")
def test_a_firms_own_admin_does_not_change_its_limits(firm_admin: Client, acme: FirmRows) -> None:
    page = firm_admin.get(operation_url(acme.firm, "change")).content.decode()
    assert operation_url(acme.firm, "limits") not in page
    assert firm_admin.get(operation_url(acme.firm, "limits")).status_code == 403
    assert firm_admin.post(operation_url(acme.firm, "limits"), {"reason": "x"}).status_code == 403
    assert limits_log() == []


def limits_log() -> list[AuditEntry]:
    """Return the audit log of changes of firms' limits."""
    return [entry for entry in rows(AuditEntry) if entry.act == "firm.limits"]
