"""`queues/`, `jobs/` and `workers/`: the queue's figures, its jobs, and the worker processes."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiResponse
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.api.schema import operation
from jobs.api.query import FirmQuery, JobQuery, WorkerQuery
from jobs.api.requests import ChainBody, EditBody, EnqueueBody, OptionalReason
from jobs.api.views import QueueView, example, list_operation, row_operation, show_operation
from jobs.engine.enqueue import EnqueueResult
from jobs.engine.new_job import EnqueueSpec
from jobs.models import JobQueue, Worker
from jobs.operations import edit, jobs, workers
from jobs.operations.enqueue import (
    enqueue,
    enqueue_chain,
    holder_is_deleted,
    role_to_enqueue,
)
from jobs.queries.filters import filter_workers
from jobs.queries.job_detail import details_of
from jobs.queries.lists import Page, get_page, job_rows, worker_context
from jobs.queries.search import find_jobs
from jobs.queries.serializers.jobs import (
    EnqueuedJobSerializer,
    JobDetailSerializer,
    JobRowSerializer,
)
from jobs.queries.serializers.stats import QueueStatsSerializer, WorkerSerializer
from jobs.queries.stats import queue_stats
from jobs.states import Status
from tenants.models import Role

_JOB = OpenApiResponse(JobDetailSerializer, "The job as it is now.")


class Queues(QueueView):
    """The queue of the caller's firms."""

    resource = tag = "queues"

    @operation(
        "Queue statistics",
        "Jobs by category and status, the oldest wait, throughput and failure rate.",
        answers={HTTPStatus.OK: OpenApiResponse(QueueStatsSerializer, "The figures.")},
        query=FirmQuery,
    )
    def show(self, request: Request) -> Response:
        return Response(QueueStatsSerializer(queue_stats()).data)


class Jobs(QueueView):
    """The jobs of the caller's firms."""

    resource = tag = "jobs"
    model, lookup_url_kwarg = JobQueue, "job_id"

    def get_rows(self, **_: Any) -> QuerySet[JobQueue]:
        """Return the jobs in scope, also those of a firm that is gone."""
        rows: QuerySet[JobQueue] = JobQueue.objects.prefetch_related("firm")
        return rows

    list = list_operation(
        "List jobs",
        "Newest first. Filters are combined: a job has to meet all of them. A page of a search "
        "reads for a second at most, so it may have fewer rows than asked for, even none. As long "
        "as `next` is not null, the search goes on there.",
        serializer=JobRowSerializer,
        rows="jobs",
        query=JobQuery,
    )
    show = show_operation(
        "Show a job",
        "With its payload, attempts, steps and children, and why it waits.",
        answer=OpenApiResponse(JobDetailSerializer, "The job."),
    )
    edit = row_operation(
        edit.edit,
        "Edit a waiting job",
        "Changes priority, time or payload of a pending job; 409 if a worker has claimed it "
        "meanwhile. Keys that its type derives from the payload change with it, but an edit that "
        "would change the idempotency key is refused. Needs the role operator.",
        answer=_JOB,
        body=EditBody,
        example=example("Run it first", priority=0, run_now=True, reason="The customer waits"),
    )
    retry = row_operation(
        jobs.retry,
        "Retry a job",
        "For a job that is dlq, failed or canceled. The job returns to the queue with its payload "
        "unchanged, and its attempts start from zero. Its open dead letter, if any, is closed as "
        "reprocessed. Needs the role operator.",
        answer=_JOB,
        example=example("Retry", reason="The archive is reachable again"),
    )

    @operation(
        "Enqueue a job",
        "The payload is checked against the schema of its type. If a job of the firm has the "
        "idempotency key already, that job is returned and nothing is stored, unless `on_conflict` "
        "changes that job. Needs the role developer; for a firm_export, the role admin.",
        body=EnqueueBody,
        answers={
            HTTPStatus.CREATED: OpenApiResponse(EnqueuedJobSerializer, "The job."),
            HTTPStatus.OK: OpenApiResponse(
                EnqueuedJobSerializer,
                "The job that already has the idempotency key. Nothing was stored, unless "
                "`replaced` says that `on_conflict` changed that job.",
            ),
        },
        example=example("Tomorrow", job_type="greet", payload={"name": "Ada"}, delay=86_400),
    )
    def enqueue(self, request: Request) -> Response:
        body = self.get_body(EnqueueBody)
        firm = self.firm_named(body.pop("firm", None), role_to_enqueue(body["job_type"]))
        return self._enqueued(enqueue(firm=firm, by=self.actor, **body))

    @operation(
        "Enqueue a chain",
        "The jobs run one after the other: each is enqueued when the one before it, its parent, "
        "is completed. All are checked now. The answer is the first job; the others do not exist "
        "yet, and `then` of the first lists them. If a job of the firm has the first one's "
        "idempotency key already, that job is returned and nothing is stored, unless `on_conflict` "
        "of the first changes that job. Needs the role developer; for a firm_export, the role "
        "admin.",
        body=ChainBody,
        answers={
            HTTPStatus.CREATED: OpenApiResponse(EnqueuedJobSerializer, "The first job."),
            HTTPStatus.OK: OpenApiResponse(
                EnqueuedJobSerializer, "The job that already has the first one's idempotency key."
            ),
        },
        example=example(
            "Two, a minute apart",
            jobs=[
                {"job_type": "greet", "payload": {"name": "Ada"}},
                {"job_type": "greet", "payload": {"name": "Ben"}, "delay": 60},
            ],
        ),
    )
    def enqueue_chain(self, request: Request) -> Response:
        body = self.get_body(ChainBody)
        needed = role_to_enqueue(*(link["job_type"] for link in body["jobs"]))
        firm = self.firm_named(body.get("firm"), needed)
        specs = [EnqueueSpec(**link) for link in body["jobs"]]
        return self._enqueued(enqueue_chain(specs, firm=firm, by=self.actor, reason=body["reason"]))

    def _enqueued(self, result: EnqueueResult) -> Response:
        """Return the job that was stored, or the one that has its key."""
        job = self.get_rows().filter(pk=result.job_id).first()
        if job is None:
            raise holder_is_deleted(result)
        status = HTTPStatus.CREATED if result.created else HTTPStatus.OK
        said = {"created": result.created, "replaced": result.replaced}
        return Response({**self.represent(job), **said}, status)

    @operation(
        "Cancel a job",
        "A pending job is canceled at once. A running job is asked to stop at its next "
        "checkpoint. Needs the role operator.",
        body=OptionalReason,
        answers={
            HTTPStatus.OK: _JOB,
            HTTPStatus.ACCEPTED: OpenApiResponse(
                JobDetailSerializer, "The job is running and was asked to stop."
            ),
        },
        example=example("Cancel", reason="Started by mistake"),
    )
    def cancel(self, request: Request, job_id: UUID) -> Response:
        job = self.get_object(Role.OPERATOR)
        job = jobs.cancel(job, by=self.actor, **self.get_body(OptionalReason))
        over = job.status == Status.CANCELED
        answer = self.represent(self.get_object())
        return Response(answer, HTTPStatus.OK if over else HTTPStatus.ACCEPTED)

    def get_page(
        self, filters: dict[str, Any], *, limit: int, cursor: str | None
    ) -> Page[JobQueue]:
        """Return a page of the jobs that meet the filters and the search."""
        readable = self.access.firms(Role.OPERATOR)
        found = find_jobs(job_rows(), readable=readable, **filters)
        return get_page(found.rows, limit=limit, cursor=cursor, window=found.window)

    def represent(self, row: JobQueue) -> Any:
        """Return the job's JSON with everything that belongs to it."""
        context = self.redaction(row.firm_id)
        return JobDetailSerializer(details_of(row), context=context).data


def _worker_operation(
    operate: Callable[..., Worker], summary: str, effect: str
) -> Callable[..., Response]:
    return row_operation(
        operate,
        summary,
        f"{effect} The worker does so at its next heartbeat. Only for platform staff.",
        answer=OpenApiResponse(WorkerSerializer, "The worker."),
        example=example(summary, reason="The host gets a new kernel"),
    )


class Workers(QueueView):
    """The workers. They serve every firm, so every caller sees them, but not all their jobs."""

    resource = tag = "workers"

    list = list_operation(
        "List workers",
        "The latest started first. A worker's running jobs are only listed if they belong to the "
        "caller's firms. Filters are combined.",
        serializer=WorkerSerializer,
        rows="workers",
        query=WorkerQuery,
    )

    def get_rows(self, **filters: Any) -> QuerySet[Worker]:
        """Return the workers that meet the filters."""
        return filter_workers(Worker.objects.all(), **filters)

    def get_context(self, page: Page[Worker]) -> dict[str, Any]:
        """Return the jobs that the workers run."""
        return worker_context(page.rows)

    quiet = _worker_operation(
        workers.quiet, "Quiet a worker", "The worker claims no more jobs until it is resumed."
    )
    resume = _worker_operation(
        workers.resume, "Resume a worker", "A quiet worker claims jobs again."
    )
    drain = _worker_operation(
        workers.drain,
        "Drain a worker",
        (
            "The worker claims no more jobs, finishes what it is running and exits; its "
            "supervisor does not replace it."
        ),
    )
    stop = _worker_operation(
        workers.stop,
        "Stop a worker",
        "As for a drain, but jobs still running after the grace period return to the queue.",
    )

    def get_object(self, needed: Role = Role.VIEWER) -> Worker:
        """Return the worker that the URL names, for platform staff.

        Raises:
            PermissionDenied: the caller is not platform staff.
            NotFound: there is none.
        """
        self.check_platform_staff()
        worker: Worker | None = self.get_rows().filter(pk=self.kwargs["pk"]).first()
        if worker is None:
            raise NotFound
        return worker

    def represent(self, row: Worker) -> Any:
        """Return the worker's JSON."""
        return WorkerSerializer(row, context=worker_context([row])).data
