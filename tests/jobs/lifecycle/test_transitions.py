"""Every transition of docs/lifecycle.md, allowed or refused, through every door that it has."""

from __future__ import annotations

import re

import pytest

from jobs.states import Status
from tenants.models import AuditEntry, Firm
from tenants.scope import all_firms
from tests.jobs.lifecycle.doors import DOORS, OF_JOBS, REASON
from tests.jobs.lifecycle.subject import ESCALATED, subject
from tests.jobs.lifecycle.table import EVERY_CASE, OF_OPERATORS, OF_WORKERS, Case
from tests.jobs.lifecycle.worker_operations import WORKER_OPERATIONS
from tests.support.paths import ROOT

pytestmark = pytest.mark.django_db(transaction=True)

LIFECYCLE = ROOT / "docs" / "lifecycle.md"


def audited() -> list[AuditEntry]:
    """Return the audit log of jobs and dead letters, oldest first."""
    with all_firms("test"):
        of_queue = AuditEntry.objects.filter(target_type__in=("job", "dead_letter"))
        return list(of_queue.order_by("id"))


@pytest.mark.req("J-08", "J-09", "J-12", "J-14")
@pytest.mark.parametrize("case", OF_WORKERS, ids=str)
def test_what_workers_do(case: Case, firm: Firm) -> None:
    job = subject(firm, case.state)
    before, entries = job.job, len(audited())
    WORKER_OPERATIONS[case.operation](job)
    assert job.state == (case.becomes or case.state)
    if case.becomes is None:
        now = job.job
        kept = ("attempts", "deaths", "series", "lease_token", "scheduled_at", "completed_at")
        assert [getattr(now, name) for name in kept] == [getattr(before, name) for name in kept]
    assert len(audited()) == entries, "workers' operations are not audited"


@pytest.mark.req("J-16", "J-17", "D-02", "T-05", "O-01", "O-03", "O-04")
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("case", OF_OPERATORS, ids=str)
def test_what_operators_do(case: Case, door: str, firm: Firm) -> None:
    job = subject(firm, case.state)
    operate = DOORS[door](firm)
    before, entries = job.columns(), len(audited())
    refusal = operate(case.operation, job)
    assert job.state == (case.becomes or case.state)
    new = audited()[entries:]
    if case.becomes is None:
        assert refusal == "wrong_state"
        assert (job.columns(), new) == (before, [])
    else:
        assert refusal == ""
        assert job.columns() != before
        expected = [f"{'job' if case.operation in OF_JOBS else 'dead_letter'}.{case.operation}"]
        if case.operation == "retry" and case.state in (Status.DLQ, ESCALATED):
            expected.insert(0, "dead_letter.reprocess")
        assert [(entry.act, entry.door, entry.reason) for entry in new] == [
            (name, door, REASON) for name in expected
        ]


@pytest.mark.req("J-08")
def test_the_table_and_the_drawing_agree() -> None:
    drawn = {
        (source, target)
        for source, target in re.findall(r"^ +(\w+) --> (\w+):", LIFECYCLE.read_text(), re.M)
    }
    status = {ESCALATED: Status.DLQ.value}
    tabled = {
        (status.get(case.state, case.state), status.get(case.becomes, case.becomes))
        for case in EVERY_CASE
        if case.becomes is not None
    }
    assert {(source, target) for source, target in tabled if source != target} == drawn
