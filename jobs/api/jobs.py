"""`queues/` and `jobs/`: the queue's figures, its jobs, and their operations."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiResponse
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.api.schema import operation
from jobs.api.requests import FirmQuery, JobQuery, OptionalReason
from jobs.api.views import ListView, QueueView, example, list_operation
from jobs.models import JobQueue
from jobs.operations import jobs
from jobs.queries.filters import filter_jobs
from jobs.queries.job_detail import details_of
from jobs.queries.lists import job_rows
from jobs.queries.serializers.jobs import JobDetailSerializer, JobRowSerializer
from jobs.queries.serializers.stats import QueueStatsSerializer
from jobs.queries.stats import queue_stats
from jobs.states import Status
from tenants.models import Role

_TAG = "jobs"
_JOB = OpenApiResponse(JobDetailSerializer, "The job as it is now.")


class Queues(QueueView):
    """The queue of the caller's firms."""

    query_class = FirmQuery

    @operation(
        "queues_show",
        tag="queues",
        summary="Queue statistics",
        description="Jobs by category and status, the oldest wait, throughput and failure rate.",
        answers={HTTPStatus.OK: OpenApiResponse(QueueStatsSerializer, "The figures.")},
        query=FirmQuery,
    )
    def get(self, request: Request) -> Response:
        """Return the statistics."""
        return Response(QueueStatsSerializer(queue_stats()).data)


@list_operation(
    "jobs_list",
    tag=_TAG,
    summary="List jobs",
    description="Newest first. Filters are combined: a job has to meet all of them.",
    rows="jobs",
)
class JobList(ListView):
    """The jobs of the caller's firms."""

    query_class = JobQuery
    serializer = JobRowSerializer

    def get_rows(self, **filters: Any) -> QuerySet[JobQueue]:
        """Return the jobs."""
        return filter_jobs(job_rows(), **filters)


class JobView(QueueView):
    """One job."""

    def get_job(self, job_id: UUID, needed: Role = Role.VIEWER) -> JobQueue:
        """Return the job; see `get_row`."""
        jobs: QuerySet[JobQueue] = JobQueue.objects.select_related("firm")
        return self.get_row(jobs, job_id, needed)

    def show(self, job_id: UUID) -> dict[str, Any]:
        """Return the job's JSON, redacted for the caller's role."""
        job = self.get_job(job_id)
        return JobDetailSerializer(details_of(job), context=self.redaction(job.firm_id)).data


class Job(JobView):
    """A job with everything that belongs to it."""

    @operation(
        "jobs_show",
        tag=_TAG,
        summary="Show a job",
        description="With its payload, attempts, steps, children and why it waits.",
        answers={HTTPStatus.OK: OpenApiResponse(JobDetailSerializer, "The job.")},
    )
    def get(self, request: Request, job_id: UUID) -> Response:
        """Return the job."""
        return Response(self.show(job_id))


class JobRetry(JobView):
    """Retrying a job."""

    @operation(
        "jobs_retry",
        tag=_TAG,
        summary="Retry a job",
        description="For a job that is dlq, failed or canceled. Its attempts start over, and an "
        "open dead letter of it closes as reprocessed. Needs the role operator.",
        body=OptionalReason,
        answers={HTTPStatus.OK: _JOB},
        examples=[example("Retry", reason="The archive is reachable again")],
    )
    def post(self, request: Request, job_id: UUID) -> Response:
        """Retry the job."""
        job = self.get_job(job_id, Role.OPERATOR)
        jobs.retry(job, by=self.actor, **self.get_body(OptionalReason))
        return Response(self.show(job_id))


class JobCancel(JobView):
    """Canceling a job."""

    @operation(
        "jobs_cancel",
        tag=_TAG,
        summary="Cancel a job",
        description="A pending job is canceled at once. A running one is asked to stop at its "
        "next checkpoint. Needs the role operator.",
        body=OptionalReason,
        answers={
            HTTPStatus.OK: _JOB,
            HTTPStatus.ACCEPTED: OpenApiResponse(
                JobDetailSerializer, "The job runs, and was asked to stop."
            ),
        },
        examples=[example("Cancel", reason="Started by mistake")],
    )
    def post(self, request: Request, job_id: UUID) -> Response:
        """Cancel the job."""
        job = self.get_job(job_id, Role.OPERATOR)
        now = jobs.cancel(job, by=self.actor, **self.get_body(OptionalReason))
        over = now.status == Status.CANCELED
        return Response(self.show(job_id), HTTPStatus.OK if over else HTTPStatus.ACCEPTED)
