"""The URLs of the service."""

from __future__ import annotations

from django.contrib import admin
from django.http import Http404
from django.urls import include, path, re_path
from django.views.generic import RedirectView
from drf_spectacular.views import SpectacularSwaggerView

from config.health import healthz, readyz
from config.metrics import metrics
from config.problems import page_not_found
from interfaces.api.schema_view import SchemaView
from jobs.admin.doctor import queue_doctor
from mail.admin.approval_link import approval_link
from mail.admin.consent import gmail_callback
from mail.api.discord import discord_button
from mail.api.push import gmail_push
from tenants.admin.login import login

# The pages must be registered before `admin.site.urls` is read below.
admin.autodiscover()

handler400 = "config.problems.bad_request"
handler403 = "config.problems.permission_denied"
handler404 = "config.problems.page_not_found"
handler500 = "config.problems.server_error"

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    path("admin/queue-doctor/", admin.site.admin_view(queue_doctor), name="queue-doctor"),
    path("admin/login/", login),
    # Django's "View on site" is replaced: no row has a public page, and the view fails at an id
    # that is no UUID.
    re_path("^admin/r/", page_not_found, {"exception": Http404()}),
    path("admin/", admin.site.urls),
    path(
        "oauth/gmail/callback/",
        admin.site.admin_view(gmail_callback),
        name="gmail-oauth-callback",
    ),
    path("approvals/<str:token>/", approval_link, name="approval-link"),
    path("webhooks/discord/", discord_button, name="discord-button"),
    path("webhooks/gmail/", gmail_push, name="gmail-push"),
    path("api/v1/jobs/admin/", include("jobs.api.urls")),
    path("api/v1/mail/", include("mail.api.urls")),
    path("api/v1/schema/", SchemaView.as_view(), name="api-schema"),
    path("api/v1/docs/", SpectacularSwaggerView.as_view(url_name="api-schema"), name="api-docs"),
    path("", RedirectView.as_view(pattern_name="admin:index")),
]
