"""The queue's URLs, below /api/v1/jobs/admin/."""

from __future__ import annotations

from django.urls import path

from jobs.api import dead_letters, jobs, limits, schedules, workers

urlpatterns = [
    path("queues/", jobs.Queues.as_view(), name="queues"),
    path("jobs/", jobs.JobList.as_view(), name="jobs"),
    path("jobs/<uuid:job_id>/", jobs.Job.as_view(), name="job"),
    path("jobs/<uuid:job_id>/retry/", jobs.JobRetry.as_view(), name="job-retry"),
    path("jobs/<uuid:job_id>/cancel/", jobs.JobCancel.as_view(), name="job-cancel"),
    path("dlq/", dead_letters.DeadLetterList.as_view(), name="dlq"),
    path("dlq/<uuid:pk>/", dead_letters.DeadLetter.as_view(), name="dead-letter"),
    path("dlq/<uuid:pk>/reprocess/", dead_letters.DeadLetterReprocess.as_view(), name="reprocess"),
    path("dlq/<uuid:pk>/discard/", dead_letters.DeadLetterDiscard.as_view(), name="discard"),
    path("dlq/<uuid:pk>/escalate/", dead_letters.DeadLetterEscalate.as_view(), name="escalate"),
    path("workers/", workers.WorkerList.as_view(), name="workers"),
    path("locks/", workers.LockList.as_view(), name="locks"),
    path("locks/<uuid:pk>/release/", workers.LockRelease.as_view(), name="lock-release"),
    path("pauses/", limits.PauseList.as_view(), name="pauses"),
    path("pauses/<uuid:pk>/resume/", limits.PauseResume.as_view(), name="pause-resume"),
    path("rate-limits/", limits.RateLimitList.as_view(), name="rate-limits"),
    path("rate-limits/<uuid:pk>/clear/", limits.RateLimitClear.as_view(), name="rate-limit-clear"),
    path("breakers/", limits.BreakerList.as_view(), name="breakers"),
    path("breakers/<uuid:pk>/close/", limits.BreakerClose.as_view(), name="breaker-close"),
    path("schedules/", schedules.ScheduleList.as_view(), name="schedules"),
    path("schedules/<uuid:pk>/", schedules.ScheduleShow.as_view(), name="schedule"),
    path("schedules/<uuid:pk>/run/", schedules.ScheduleRun.as_view(), name="schedule-run"),
    path("schedules/<uuid:pk>/pause/", schedules.SchedulePause.as_view(), name="schedule-pause"),
    path("schedules/<uuid:pk>/resume/", schedules.ScheduleResume.as_view(), name="schedule-resume"),
]
