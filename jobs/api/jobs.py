"""`jobs/`: jobs, and what an operator does to one."""

from __future__ import annotations

from http import HTTPStatus
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiResponse
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.api.schema import operation, page_of
from jobs.api import examples
from jobs.api.requests import JobQuery, OptionalReason
from jobs.api.views import QueueView
from jobs.engine.redaction import redact_secrets, redact_values
from jobs.models import JobQueue
from jobs.operations import jobs
from jobs.queries.filters import JobFilter
from jobs.queries.job_detail import details_of
from jobs.queries.lists import list_jobs
from jobs.queries.serializers.jobs import JobDetailSerializer, JobRowSerializer
from jobs.states import Category, Status
from tenants.models import Role

_TAG = "jobs"
_JOB = OpenApiResponse(JobDetailSerializer, "The job as it is now.")


class JobView(QueueView):
    """One job."""

    def get_job(self, job_id: UUID, needed: Role = Role.VIEWER) -> JobQueue:
        """Return the job; see `get_row`."""
        jobs: QuerySet[JobQueue] = JobQueue.objects.select_related("firm")
        return self.get_row(jobs, job_id, needed)

    def show(self, job_id: UUID) -> dict[str, Any]:
        """Return the job's shape, as much of it as the caller may read."""
        job = self.get_job(job_id)
        may_read = self.access.may(Role.OPERATOR, job.firm_id)
        return JobDetailSerializer(
            details_of(job), context={"redact": redact_secrets if may_read else redact_values}
        ).data


class JobList(QueueView):
    """The jobs of the caller's firms."""

    query_class = JobQuery

    @operation(
        "jobs_list",
        tag=_TAG,
        summary="List jobs",
        description="Newest first. Filters are combined: a job has to meet all of them.",
        answers={HTTPStatus.OK: OpenApiResponse(page_of(JobRowSerializer), "A page of jobs.")},
        query=JobQuery,
    )
    def get(self, request: Request) -> Response:
        """Return a page of jobs."""
        asked = self.query
        wanted = JobFilter(
            status=Status(asked["status"]) if "status" in asked else None,
            category=Category(asked["category"]) if "category" in asked else None,
            job_type=asked.get("job_type"),
            correlation_id=asked.get("correlation_id"),
            since=asked.get("created_after"),
            before=asked.get("created_before"),
            error=asked.get("error"),
            search=asked.get("search"),
        )
        page = list_jobs(wanted, limit=asked["limit"], cursor=asked.get("cursor"))
        return Response(
            {"results": JobRowSerializer(page.rows, many=True).data, "next": page.next_cursor}
        )


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
    """Sending a job round again."""

    @operation(
        "jobs_retry",
        tag=_TAG,
        summary="Retry a job",
        description="For a job that is dlq, failed or canceled. Its attempts start over, and an "
        "open dead letter of it closes as reprocessed. Needs the role operator.",
        body=OptionalReason,
        answers={HTTPStatus.OK: _JOB},
        examples=[examples.RETRY],
    )
    def post(self, request: Request, job_id: UUID) -> Response:
        """Retry the job."""
        job = self.get_job(job_id, Role.OPERATOR)
        body = self.get_body(OptionalReason)
        jobs.retry(job, by=self.actor, reason=body["reason"])
        return Response(self.show(job_id))


class JobCancel(JobView):
    """Stopping a job."""

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
        examples=[examples.CANCEL],
    )
    def post(self, request: Request, job_id: UUID) -> Response:
        """Cancel the job."""
        job = self.get_job(job_id, Role.OPERATOR)
        body = self.get_body(OptionalReason)
        now = jobs.cancel(job, by=self.actor, reason=body["reason"])
        over = now.status == Status.CANCELED
        return Response(self.show(job_id), HTTPStatus.OK if over else HTTPStatus.ACCEPTED)
