"""The URLs of mail, below /api/v1/mail/."""

from __future__ import annotations

from django.urls import path

from mail.api.accounts import Accounts
from mail.api.actions import Actions
from mail.api.agent_schedules import AgentSchedules
from mail.api.approvals import Approvals
from mail.api.data_requests import DataRequests
from mail.api.decisions import Decisions
from mail.api.directions import Directions
from mail.api.documents import Documents
from mail.api.drafts import Drafts
from mail.api.labels import Labels
from mail.api.messages import Messages
from mail.api.notification_preferences import Preferences
from mail.api.outbound import Outbound
from mail.api.reminders import Reminders
from mail.api.routing_rules import RoutingRules
from mail.api.rules import Rules
from mail.api.threads import Threads

urlpatterns = [
    path("accounts/", Accounts.as_view({"get": "list"})),
    path("accounts/<uuid:pk>/", Accounts.as_view({"get": "show"})),
    path("accounts/<uuid:pk>/briefing/", Accounts.as_view({"get": "briefing"})),
    path("accounts/<uuid:pk>/sync/", Accounts.as_view({"post": "sync"})),
    path("accounts/<uuid:pk>/sync-labels/", Accounts.as_view({"post": "sync_labels"})),
    path("accounts/<uuid:pk>/renew-watch/", Accounts.as_view({"post": "renew_watch"})),
    path("accounts/<uuid:pk>/activate/", Accounts.as_view({"post": "activate"})),
    path("accounts/<uuid:pk>/suggest-only/", Accounts.as_view({"post": "suggest_only"})),
    path("accounts/<uuid:pk>/pause/", Accounts.as_view({"post": "pause"})),
    path("accounts/<uuid:pk>/resume/", Accounts.as_view({"post": "resume"})),
    path("accounts/<uuid:pk>/attachments/", Accounts.as_view({"post": "attachments"})),
    path("accounts/<uuid:pk>/follow-ups/", Accounts.as_view({"post": "follow_ups"})),
    path("accounts/<uuid:pk>/disconnect/", Accounts.as_view({"post": "disconnect"})),
    path("accounts/<uuid:pk>/break-glass/", Accounts.as_view({"post": "break_glass"})),
    path("messages/", Messages.as_view({"get": "list"})),
    path("messages/<uuid:pk>/", Messages.as_view({"get": "show"})),
    path("messages/<uuid:pk>/timeline/", Messages.as_view({"get": "timeline"})),
    path("messages/<uuid:pk>/reclassify/", Messages.as_view({"post": "reclassify"})),
    path("threads/", Threads.as_view({"get": "list"})),
    path("threads/<uuid:pk>/", Threads.as_view({"get": "show"})),
    path("outbound/", Outbound.as_view({"get": "list"})),
    path("outbound/<uuid:pk>/", Outbound.as_view({"get": "show"})),
    path("outbound/<uuid:pk>/cancel/", Outbound.as_view({"post": "cancel"})),
    path("outbound/<uuid:pk>/mark-sent/", Outbound.as_view({"post": "mark_sent"})),
    path("outbound/<uuid:pk>/send-again/", Outbound.as_view({"post": "send_again"})),
    path("documents/", Documents.as_view({"get": "list"})),
    path("documents/<uuid:pk>/", Documents.as_view({"get": "show"})),
    path("drafts/", Drafts.as_view({"get": "list"})),
    path("drafts/<uuid:pk>/", Drafts.as_view({"get": "show"})),
    path("drafts/<uuid:pk>/rework/", Drafts.as_view({"post": "rework"})),
    path("drafts/<uuid:pk>/discard/", Drafts.as_view({"post": "discard"})),
    path("decisions/", Decisions.as_view({"get": "list"})),
    path("decisions/<uuid:pk>/", Decisions.as_view({"get": "show"})),
    path("actions/", Actions.as_view({"get": "list"})),
    path("actions/<uuid:pk>/", Actions.as_view({"get": "show"})),
    path("actions/<uuid:pk>/undo/", Actions.as_view({"post": "undo"})),
    path("rules/", Rules.as_view({"get": "list", "post": "create"})),
    path("rules/<uuid:pk>/", Rules.as_view({"get": "show", "patch": "change"})),
    path("rules/<uuid:pk>/try/", Rules.as_view({"post": "try_out"})),
    path("rules/<uuid:pk>/enable/", Rules.as_view({"post": "enable"})),
    path("rules/<uuid:pk>/disable/", Rules.as_view({"post": "disable"})),
    path("rules/<uuid:pk>/apply/", Rules.as_view({"post": "apply"})),
    path("rules/<uuid:pk>/delete/", Rules.as_view({"post": "delete_rule"})),
    path("routing-rules/", RoutingRules.as_view({"get": "list", "post": "create"})),
    path("routing-rules/<uuid:pk>/", RoutingRules.as_view({"get": "show", "patch": "change"})),
    path("routing-rules/<uuid:pk>/delete/", RoutingRules.as_view({"post": "delete_rule"})),
    path("labels/", Labels.as_view({"get": "list"})),
    path("labels/<uuid:pk>/", Labels.as_view({"get": "show", "patch": "describe"})),
    path("directions/", Directions.as_view({"get": "list", "post": "create"})),
    path("directions/<uuid:pk>/", Directions.as_view({"get": "show", "patch": "change"})),
    path("directions/<uuid:pk>/delete/", Directions.as_view({"post": "delete_direction"})),
    path("data-requests/", DataRequests.as_view({"get": "list", "post": "create"})),
    path("data-requests/<uuid:pk>/", DataRequests.as_view({"get": "show"})),
    path("data-requests/<uuid:pk>/download/", DataRequests.as_view({"get": "download"})),
    path("reminders/", Reminders.as_view({"get": "list", "post": "create"})),
    path("reminders/<uuid:pk>/", Reminders.as_view({"get": "show", "patch": "change"})),
    path("reminders/<uuid:pk>/cancel/", Reminders.as_view({"post": "cancel"})),
    path("reminders/<uuid:pk>/delete/", Reminders.as_view({"post": "delete_reminder"})),
    path("notification-preferences/", Preferences.as_view({"get": "list", "post": "create"})),
    path(
        "notification-preferences/<uuid:pk>/",
        Preferences.as_view({"get": "show", "patch": "change"}),
    ),
    path("notification-preferences/<uuid:pk>/reset/", Preferences.as_view({"post": "reset"})),
    path("agent-schedules/", AgentSchedules.as_view({"get": "list", "post": "create"})),
    path("agent-schedules/<uuid:pk>/", AgentSchedules.as_view({"get": "show", "patch": "change"})),
    path("agent-schedules/<uuid:pk>/delete/", AgentSchedules.as_view({"post": "delete_schedule"})),
    path("approvals/", Approvals.as_view({"get": "list"})),
    path("approvals/<uuid:pk>/", Approvals.as_view({"get": "show"})),
    path("approvals/<uuid:pk>/approve/", Approvals.as_view({"post": "approve"})),
    path("approvals/<uuid:pk>/reject/", Approvals.as_view({"post": "reject"})),
]
