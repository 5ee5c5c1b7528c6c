"""`manage.py dlq rehearse`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tenants.models import AuditEntry, Firm
from tenants.scope import all_firms
from tests.factories.jobs import DeadLetterQueueFactory, JobQueueFactory
from tests.support.rehearsals import without_process

pytestmark = pytest.mark.req("O-07", "O-04")


def test_it_prints_what_the_job_would_do(run: Callable[..., Any], firm: Firm) -> None:
    job = JobQueueFactory(firm=firm, status="dlq", attempts=3)
    letter = DeadLetterQueueFactory(original_job=job, reason="exhausted")
    with without_process():
        done = run("dlq", "rehearse", str(letter.pk))
        as_json = run("dlq", "rehearse", str(letter.pk), "--json")
        refused = run("dlq", "rehearse", str(letter.pk), "--payload", '{"colour": 1}')
    assert done.code == 0
    for part in ("retried", "TimeoutError: no answer", "jobs_schedule", "mail.example:443"):
        assert part in done.out
    assert "once this job is completed" in done.out
    assert "Everything above was undone." in done.out
    assert as_json.json["children"][0]["job_type"] == "noop"
    assert (refused.code, "colour" in refused.err) == (1, True)
    with all_firms("test"):
        assert set(AuditEntry.objects.values_list("act", "door")) == {
            ("dead_letter.rehearse", "cli")
        }
