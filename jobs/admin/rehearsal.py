"""The rehearsal of a dead letter in the admin: its form, and the page of what the job would do."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.utils.html import format_html

from jobs.admin.base import LABELS, QueueOperation, exact, pretty_json
from jobs.admin.payload_field import PayloadForm
from jobs.models import DeadLetterQueue, JobQueue
from jobs.operations.rehearsal import MOST_SECONDS, rehearse
from jobs.queries.serializers.rehearsal import RehearsalSerializer
from jobs.states import RETRYABLE

# The page's icon for each kind of call.
CALL_ICONS = {"network": "public", "process": "terminal", "email": "mail", "file": "description"}


class RehearseForm(PayloadForm):
    """The payload to try."""

    def job_of(self, row: DeadLetterQueue) -> JobQueue:
        """Return the dead letter's job."""
        return row.original_job


def _alive(row: DeadLetterQueue) -> str:
    status = row.original_job.status
    return "" if status in RETRYABLE else f"The job is {status}: there is nothing to rehearse."


REHEARSE = QueueOperation(
    name="rehearse",
    label="Rehearse",
    icon="science",
    role="developer",
    form=RehearseForm,
    effect="The job runs with the payload below in a transaction that is rolled back. Calls to "
    "the outside are blocked and listed. The page shows what the job would do; this takes at most "
    f"{MOST_SECONDS:g} seconds.",
    obstacle=_alive,
    # The same as for a reprocess, which the result's page offers with the same payload.
    seen=lambda row: row.resolution,
    perform=rehearse,
    report=lambda _: "Rehearsed.",
)


def rehearsal_context(
    request: HttpRequest, row: DeadLetterQueue, made: dict[str, Any], reprocess: str
) -> dict[str, Any]:
    """Return what the page of a rehearsal's report shows.

    `reprocess` is the address to which the payload can be sent for a reprocess, or empty.
    """
    report = RehearsalSerializer(made).data
    outcome = report["outcome"]
    return {
        "title": f"Rehearsal of {report['job_type']}",
        "operation": REHEARSE,
        "form": RehearseForm(request.POST, request=request, row=row),
        "seen": REHEARSE.seen(row),
        "report": report,
        "reprocess": format_html('formaction="{}"', reprocess) if reprocess else "",
        "outcome": outcome.replace("_", " "),
        "outcome_label": LABELS.get(outcome, "warning"),
        "result": None if report["result"] is None else pretty_json(report["result"]),
        "calls": [(CALL_ICONS.get(call["kind"], "block"), call) for call in report["calls"]],
        "children": [
            (
                child,
                f"due {exact(due)}" if due else f"once {child['after']}",
                pretty_json(child["payload"]),
            )
            for child, due in zip(
                report["children"], (one["scheduled_at"] for one in made["children"]), strict=True
            )
        ],
        "steps": [(step, pretty_json(step["result"])) for step in report["steps"]],
    }
