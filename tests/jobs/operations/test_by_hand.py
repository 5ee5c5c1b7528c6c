"""What no developer of a firm enqueues by hand: what an operation begins, and the system firm's work."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from jobs import registry
from jobs.errors import PayloadInvalid, ScheduleInvalid
from jobs.models import JobQueue, Schedule
from jobs.operations.enqueue import enqueue, enqueue_chain
from jobs.operations.schedules import change_schedule, create_schedule
from jobs.queue import EnqueueSpec
from jobs.schedules.defaults import store_default_schedules
from tenants.models import Firm
from tenants.scope import all_firms
from tests.queue_kit import rows

pytestmark = [pytest.mark.django_db, pytest.mark.req("T-05")]

REQUESTS = ("firm_export", "gdpr_export", "erase_subject")
OF_SYSTEM_FIRM = (
    "actions.sweep",
    "agents.enqueue_due",
    "approvals.expire",
    "digests.enqueue_due",
    "dlq_age_alert",
    "dlq_alert",
    "exports.expire",
    "follow_ups.find",
    "reminders.enqueue_due",
)


def refused(job_type: str, firm: Firm, payload: dict[str, Any]) -> set[str]:
    """Try at each door of the operations; return what they say."""
    with pytest.raises(PayloadInvalid) as alone:
        enqueue(job_type, payload, firm=firm)
    with pytest.raises(PayloadInvalid) as chained:
        enqueue_chain([EnqueueSpec("noop"), EnqueueSpec(job_type, payload)], firm=firm)
    with pytest.raises(ScheduleInvalid) as scheduled:
        create_schedule("mine", job_type, interval_seconds=60, payload=payload, firm=firm)
    found = [one.value.faults[0] for one in (alone, chained, scheduled)]
    assert [one.field for one in found] == ["job_type", "jobs.1.job_type", "job_type"]
    assert {one.code for one in found} == {"not_possible"}
    return {one.message for one in found}


@pytest.mark.parametrize("job_type", REQUESTS)
def test_what_is_asked_for_under_data_requests(firm: Firm, job_type: str) -> None:
    for one in (firm, Firm.objects.system()):
        (message,) = refused(job_type, one, {"request_id": str(uuid4())})
        assert "is a data request" in message
    assert rows(JobQueue) == rows(Schedule) == []


@pytest.mark.parametrize("job_type", OF_SYSTEM_FIRM)
def test_what_works_on_every_firm(firm: Firm, job_type: str) -> None:
    (message,) = refused(job_type, firm, {})
    assert "only the system firm" in message
    assert rows(JobQueue) == rows(Schedule) == []


def test_the_system_firm_has_its_jobs_and_changes_its_schedules() -> None:
    system = Firm.objects.system()
    assert enqueue("dlq_alert", firm=system).created
    store_default_schedules(["dlq_alert"])
    (schedule,) = rows(Schedule)
    with all_firms("test"):
        assert change_schedule(schedule, interval_seconds=120).interval_seconds == 120


def test_no_other_type_says_of_itself_that_it_is_the_system_firms(firm: Firm) -> None:
    said = [
        one.name
        for one in registry.all_types()
        if any(word in (one.handler.__doc__ or "") for word in ("of the system firm", "every firm"))
    ]
    # A firm's own purges that firm.
    assert {*said} <= {*OF_SYSTEM_FIRM, "purge_jobs"}
    assert enqueue("purge_jobs", firm=firm).created
