"""Jobs that work for every firm belong to the system firm; a firm's own people get none."""

from __future__ import annotations

import pytest

from jobs import registry
from jobs.errors import PayloadInvalid, ScheduleInvalid
from jobs.models import JobQueue, Schedule
from jobs.operations.schedules import create_schedule
from jobs.queue import enqueue
from jobs.registry.system_payload import SystemPayload
from jobs.schedules.defaults import store_default_schedules
from jobs.states import ScheduleTarget
from jobs.testing import run_job
from tenants.models import Firm
from tenants.scope import all_firms, firm_scope
from tests.factories.jobs import JobQueueFactory

pytestmark = pytest.mark.django_db

# A firm's job of these works on the rows of that firm alone.
FOR_ONE_FIRM_TOO = {"purge_jobs", "dlq_age_alert", "agents.enqueue_due", "reminders.enqueue_due"}


def for_every_firm() -> set[str]:
    return {
        one.name for one in registry.all_types() if issubclass(one.payload_model, SystemPayload)
    }


def test_scheduled_jobs_of_the_system_firm_alone_are_refused_to_other_firms(firm: Firm) -> None:
    store_default_schedules()
    with all_firms("test"):
        own = Schedule.objects.filter(firm=Firm.objects.system(), target=ScheduleTarget.FIRM)
        types = set(own.values_list("job_type", flat=True))
    assert for_every_firm() == types - FOR_ONE_FIRM_TOO
    for job_type in types - FOR_ONE_FIRM_TOO:
        with pytest.raises(PayloadInvalid) as refused:
            enqueue(job_type, firm=firm)
        assert [(one.field, one.code) for one in refused.value.faults] == [
            ("tenant_id", "system_only")
        ]
        with pytest.raises(ScheduleInvalid), firm_scope(firm):
            create_schedule("mine", job_type, firm=firm, interval_seconds=60)
        assert enqueue(job_type, firm=Firm.objects.system()).created


def test_a_job_of_another_firm_that_is_stored_already_does_not_run(firm: Firm) -> None:
    stored = JobQueueFactory(firm=firm, job_type="dlq_alert")
    run_job(stored.pk)
    with firm_scope(firm):
        assert JobQueue.objects.get(pk=stored.pk).status == "dlq"
