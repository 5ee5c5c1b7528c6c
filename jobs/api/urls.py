"""The queue's URLs, below /api/v1/jobs/admin/."""

from __future__ import annotations

from django.urls import path

from jobs.api.audit import AuditLog
from jobs.api.batches import Batches
from jobs.api.bulk import BulkRuns, Groups
from jobs.api.dead_letters import DeadLetters
from jobs.api.jobs import Jobs, Queues, Workers
from jobs.api.limits import Breakers, Locks, Pauses, RateLimits
from jobs.api.notifications import Deliveries, Endpoints
from jobs.api.schedules import ScheduleRuns, Schedules

urlpatterns = [
    path("queues/", Queues.as_view({"get": "show"})),
    path("jobs/", Jobs.as_view({"get": "list", "post": "enqueue"})),
    path("jobs/chain/", Jobs.as_view({"post": "enqueue_chain"})),
    path("jobs/bulk/", BulkRuns.as_view({"post": "of_jobs"})),
    path("jobs/<uuid:job_id>/", Jobs.as_view({"get": "show", "patch": "edit"})),
    path("jobs/<uuid:job_id>/retry/", Jobs.as_view({"post": "retry"})),
    path("jobs/<uuid:job_id>/cancel/", Jobs.as_view({"post": "cancel"})),
    path("dlq/", DeadLetters.as_view({"get": "list"})),
    path("dlq/groups/", Groups.as_view({"get": "show"})),
    path("dlq/bulk/", BulkRuns.as_view({"post": "of_dead_letters"})),
    path("dlq/<uuid:pk>/", DeadLetters.as_view({"get": "show"})),
    path("dlq/<uuid:pk>/rehearse/", DeadLetters.as_view({"post": "rehearse"})),
    path("dlq/<uuid:pk>/reprocess/", DeadLetters.as_view({"post": "reprocess"})),
    path("dlq/<uuid:pk>/discard/", DeadLetters.as_view({"post": "discard"})),
    path("dlq/<uuid:pk>/escalate/", DeadLetters.as_view({"post": "escalate"})),
    path("bulk-runs/", BulkRuns.as_view({"get": "list"})),
    path("bulk-runs/<uuid:pk>/", BulkRuns.as_view({"get": "show"})),
    path("bulk-runs/<uuid:pk>/stop/", BulkRuns.as_view({"post": "stop"})),
    path("batches/", Batches.as_view({"get": "list"})),
    path("batches/<uuid:pk>/", Batches.as_view({"get": "show"})),
    path("workers/", Workers.as_view({"get": "list"})),
    path("workers/<uuid:pk>/quiet/", Workers.as_view({"post": "quiet"})),
    path("workers/<uuid:pk>/resume/", Workers.as_view({"post": "resume"})),
    path("workers/<uuid:pk>/drain/", Workers.as_view({"post": "drain"})),
    path("workers/<uuid:pk>/stop/", Workers.as_view({"post": "stop"})),
    path("locks/", Locks.as_view({"get": "list"})),
    path("locks/<uuid:pk>/release/", Locks.as_view({"post": "release"})),
    path("pauses/", Pauses.as_view({"get": "list", "post": "create"})),
    path("pauses/<uuid:pk>/resume/", Pauses.as_view({"post": "resume"})),
    path("rate-limits/", RateLimits.as_view({"get": "list", "post": "set"})),
    path("rate-limits/<uuid:pk>/clear/", RateLimits.as_view({"post": "clear"})),
    path("breakers/", Breakers.as_view({"get": "list", "post": "open"})),
    path("breakers/<uuid:pk>/close/", Breakers.as_view({"post": "close"})),
    path("endpoints/", Endpoints.as_view({"get": "list", "post": "create"})),
    path("endpoints/<uuid:pk>/", Endpoints.as_view({"get": "show", "patch": "change"})),
    path("endpoints/<uuid:pk>/remove/", Endpoints.as_view({"post": "remove"})),
    path("endpoints/<uuid:pk>/rotate-key/", Endpoints.as_view({"post": "rotate_key"})),
    path("endpoints/<uuid:pk>/signing-key/", Endpoints.as_view({"get": "signing_key"})),
    path("endpoints/<uuid:pk>/test/", Endpoints.as_view({"post": "test"})),
    path("deliveries/", Deliveries.as_view({"get": "list"})),
    path("audit/", AuditLog.as_view({"get": "list"})),
    path("schedules/", Schedules.as_view({"get": "list"})),
    path("schedules/<uuid:pk>/", Schedules.as_view({"get": "show"})),
    path("schedules/<uuid:pk>/runs/", ScheduleRuns.as_view({"get": "list"})),
    path("schedules/<uuid:pk>/run/", Schedules.as_view({"post": "run"})),
    path("schedules/<uuid:pk>/pause/", Schedules.as_view({"post": "pause"})),
    path("schedules/<uuid:pk>/resume/", Schedules.as_view({"post": "resume"})),
]
