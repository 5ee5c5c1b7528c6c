"""`dlq/groups/`, `dlq/bulk/`, `jobs/bulk/` and `bulk-runs/`: many dead letters or jobs at once."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from urllib.parse import urljoin

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiResponse
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.api.schema import operation
from interfaces.api.serializers import (
    FlagField,
    MomentField,
    NumberField,
    StrictSerializer,
    TextField,
    WholeNumberField,
)
from jobs.api.query import MAX_SEARCH_LENGTH, FirmQuery, JobFilters, choice, text
from jobs.api.requests import MAX_TEXT_LENGTH, FirmBody, priority_field
from jobs.api.views import (
    QueueView,
    example,
    list_operation,
    refusal,
    row_operation,
    show_operation,
)
from jobs.engine.clock import database_now
from jobs.engine.job_arguments import MAX_KEY_LENGTH
from jobs.models import BulkRun
from jobs.operations import bulk
from jobs.operations.bulk import (
    CANARY_SIZE,
    MAX_FAILURE_RATE,
    MOST_CANARIES,
    MOST_PER_SECOND,
    BulkSpec,
    Pace,
)
from jobs.queries.bulk import Selection, details_of_run
from jobs.queries.filters import OPEN
from jobs.queries.groups import dead_letter_groups
from jobs.queries.lists import bulk_runs
from jobs.queries.serializers.bulk import (
    BulkRunDetailSerializer,
    BulkRunSerializer,
    BulkStartedSerializer,
    BulkTotalsSerializer,
    GroupsSerializer,
)
from jobs.states import (
    OF_DEAD_LETTERS,
    BulkOperation,
    Category,
    DeadReason,
    Resolution,
)
from tenants.models import Role

MAX_IDS = 5_000


class DeadLetterFilter(StrictSerializer):
    """The filters of the list of dead letters; open ones alone are chosen."""

    category = choice(Category, "The kind of work.")
    job_type = text("The exact type.", 100)
    created_after = MomentField(required=False, help_text="As in the list of dead letters.")
    created_before = MomentField(required=False, help_text="As in the list of dead letters.")
    fingerprint = TextField(
        required=False, allow_blank=True, max_length=32, help_text="The fingerprint of a group."
    )
    reason = choice(DeadReason, "Why the job was dead-lettered.")
    resolution = choice(
        [OPEN, Resolution.ESCALATED],
        "`open`: no decision yet, including escalated ones; `escalated`: only those.",
    )
    user = text("As in the list of dead letters.", MAX_KEY_LENGTH)
    search = text("As in the list of dead letters.", MAX_KEY_LENGTH)


class JobFilter(JobFilters):
    """The filters of the list of jobs."""

    search = text(
        "As in the list of jobs, but all jobs are searched, however old they are.",
        MAX_SEARCH_LENGTH,
    )


class CanaryBody(StrictSerializer):
    """The members that are handled first; the others follow when these did not fail again."""

    size = WholeNumberField(
        default=CANARY_SIZE,
        min_value=1,
        max_value=MOST_CANARIES,
        help_text="How many members to try first; it must be fewer than all.",
    )
    max_failure_rate = NumberField(
        default=MAX_FAILURE_RATE,
        min_value=0,
        max_value=0.99,
        help_text="The run stops if more than this fraction of the canary fails again.",
    )


class _BulkBody(FirmBody):
    """What a bulk run does, to what, and how fast."""

    everywhere = FlagField(default=False, help_text="In every firm; only for platform staff.")
    ids = serializers.ListField(
        child=serializers.UUIDField(),
        required=False,
        min_length=1,
        max_length=MAX_IDS,
        help_text="Give either ids or a filter.",
    )
    reason = TextField(
        default="",
        allow_blank=True,
        max_length=MAX_TEXT_LENGTH,
        help_text="Kept in the audit log; required for a discard.",
    )
    dry_run = FlagField(
        default=True, help_text="Only count the rows, by cause and firm; nothing is changed."
    )
    rate_per_second = NumberField(
        required=False,
        allow_null=True,
        min_value=0.001,
        max_value=MOST_PER_SECOND,
        help_text="The most members handled per second.",
    )


class DeadLetterBulkBody(_BulkBody):
    """A bulk run on dead letters."""

    action = serializers.ChoiceField(
        [word.value for word in BulkOperation if word in OF_DEAD_LETTERS]
    )
    filter = DeadLetterFilter(
        required=False,
        help_text="Selects all open dead letters that meet it; `{}` selects all open ones.",
    )
    canary = CanaryBody(required=False, help_text="Only for reprocess.")


class JobBulkBody(_BulkBody):
    """A bulk run on jobs."""

    action = serializers.ChoiceField(
        [word.value for word in BulkOperation if word not in OF_DEAD_LETTERS]
    )
    filter = JobFilter(
        required=False,
        help_text="Selects all jobs that meet it and whose status allows the operation.",
    )
    canary = CanaryBody(required=False, help_text="Only for retry.")
    priority = priority_field("Only for set_priority: ")


_ANSWERS = {
    HTTPStatus.OK: OpenApiResponse(BulkTotalsSerializer, "What the run would change."),
    HTTPStatus.ACCEPTED: OpenApiResponse(BulkStartedSerializer, "The run was started."),
}
_HOW = (
    "A dry run unless `dry_run` is false: it counts by cause and firm and changes nothing. A bulk "
    "run is a job: its members are fixed now, it continues after a crash, and `bulk-runs/` shows "
    "and stops it. Needs the role operator; everywhere is only for platform staff. 409 if nothing "
    "matches."
)


class BulkRuns(QueueView):
    """The bulk runs of the caller's firms."""

    resource, tag = "bulk_runs", "bulk runs"
    model, serializer = BulkRun, BulkRunDetailSerializer

    list = list_operation(
        "List bulk runs",
        "The latest first. Runs on every firm are only listed for platform staff.",
        serializer=BulkRunSerializer,
        rows="bulk runs",
    )
    show = show_operation(
        "Show a bulk run",
        "The run's progress, and why members were refused.",
        answer=OpenApiResponse(BulkRunDetailSerializer, "The run."),
    )
    stop = row_operation(
        bulk.stop,
        "Stop a bulk run",
        "The run handles no more members; what it has done stays as it is. Needs the role "
        "operator. 409 if the run is over.",
        answer=OpenApiResponse(BulkRunDetailSerializer, "The stopped run."),
        example=example("Stop", reason="The provider is down again"),
    )

    @operation(
        "Decide about many dead letters",
        _HOW,
        body=DeadLetterBulkBody,
        answers=_ANSWERS,
        example=example(
            "One failure, carefully",
            action="reprocess",
            filter={"fingerprint": "5f1d7a84db00d2fc"},
            dry_run=False,
            rate_per_second=50,
            canary={"size": 50},
        ),
    )
    def of_dead_letters(self, request: Request) -> Response:
        return self._start(self.get_body(DeadLetterBulkBody))

    @operation(
        "Retry, cancel or hurry many jobs",
        _HOW,
        body=JobBulkBody,
        answers=_ANSWERS,
        example=example(
            "Cancel a type's waiting jobs",
            action="cancel",
            filter={"job_type": "firm_export", "status": "pending"},
            reason="The export is not wanted any more",
            dry_run=False,
        ),
    )
    def of_jobs(self, request: Request) -> Response:
        return self._start(self.get_body(JobBulkBody))

    def get_rows(self, **_: Any) -> QuerySet[BulkRun]:
        """Return the runs in scope."""
        return bulk_runs()

    def represent(self, row: BulkRun) -> Any:
        """Return the run's JSON with what became of its members."""
        return BulkRunDetailSerializer(details_of_run(row)).data

    def _start(self, body: dict[str, Any]) -> Response:
        firm = self.pop_firm_or_every(body, Role.OPERATOR)
        ids, filters = body.get("ids"), body.get("filter")
        if (ids is None) == (filters is None):
            raise refusal("filter", "required", "Give either ids or a filter.")
        canary = body.get("canary", {})
        spec = BulkSpec(
            operation=BulkOperation(body["action"]),
            selection=Selection(ids, filters),
            firm=firm,
            reason=body["reason"],
            priority=body.get("priority"),
            pace=Pace(
                rate_per_second=body.get("rate_per_second"),
                canary_size=canary.get("size", 0),
                canary_max_failure_rate=canary.get("max_failure_rate", MAX_FAILURE_RATE),
            ),
        )
        if body["dry_run"]:
            return Response(BulkTotalsSerializer(bulk.preview(spec)).data)
        run = bulk.start(spec, by=self.actor)
        context = {"runs": urljoin(self.request.path, "../../bulk-runs/")}
        return Response(BulkStartedSerializer(run, context=context).data, HTTPStatus.ACCEPTED)


class Groups(QueueView):
    """The groups of open dead letters of the caller's firms."""

    resource, tag = "dlq_groups", "dead letters"

    @operation(
        "Open dead letters by failure",
        "Dead letters with the same fingerprint form a group: how many, since when, in which "
        "firms, with the latest as a sample. The largest groups first.",
        answers={HTTPStatus.OK: OpenApiResponse(GroupsSerializer, "The groups.")},
        query=FirmQuery,
    )
    def show(self, request: Request) -> Response:
        groups, more = dead_letter_groups(database_now())
        return Response(GroupsSerializer({"results": groups, "more": more}).data)
