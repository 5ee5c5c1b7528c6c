"""Unfold's settings: title, icon, sidebar."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse


@dataclass(frozen=True)
class _Link:
    """A link to a model's list, shown to users who may see it."""

    title: str
    icon: str
    model: str


@dataclass(frozen=True)
class _StaffLink:
    """A link to a page for platform staff."""

    title: str
    icon: str
    url_name: str


_SECTIONS: dict[str, list[_Link | _StaffLink]] = {
    "Queue": [
        _Link("Jobs", "list_alt", "jobs.JobQueue"),
        _Link("Dead letters", "report", "jobs.DeadLetterQueue"),
        _Link("Locks", "lock", "jobs.ConcurrencyLock"),
        _Link("Schedules", "event_repeat", "jobs.Schedule"),
        _Link("Pauses", "pause_circle", "jobs.Pause"),
        _Link("Rate limits", "speed", "jobs.RateLimit"),
        _Link("Circuit breakers", "electric_bolt", "jobs.CircuitBreaker"),
        _Link("Workers", "memory", "jobs.Worker"),
        _StaffLink("Queue doctor", "stethoscope", "queue-doctor"),
    ],
    "Mail": [
        _Link("Accounts", "inbox", "mail.MailAccount"),
        _Link("Messages", "mail", "mail.Message"),
        _Link("Decisions", "rule", "mail.Decision"),
        _Link("Actions", "bolt", "mail.Action"),
        _Link("Events", "history", "mail.MailEvent"),
    ],
    "Tenants": [
        _Link("Firms", "domain", "tenants.Firm"),
        _Link("Members", "group", "tenants.Membership"),
        _Link("API keys", "key", "tenants.ApiKey"),
        _Link("Audit log", "policy", "tenants.AuditEntry"),
        _Link("Users", "person", "auth.User"),
    ],
}


# An envelope, written out so that the tab icon needs no file of its own.
FAVICON = (
    "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'>"
    "<rect width='32' height='32' rx='7' fill='%239810fa'/>"
    "<path d='M7 11h18v11H7z M7 11l9 7 9-7' fill='none' stroke='white' stroke-width='2'/></svg>"
)


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the sidebar for this user."""
    from django.contrib import admin

    pages = {
        f"{app['app_label']}.{model['object_name']}": model["admin_url"]
        for app in admin.site.get_app_list(request)
        for model in app["models"]
    }
    overview = {"title": "Overview", "icon": "monitoring", "link": reverse("admin:index")}
    sections = [
        {
            "title": title,
            "items": [
                {"title": link.title, "icon": link.icon, "link": address}
                for link in links
                if (address := _address(link, pages))
            ],
        }
        for title, links in _SECTIONS.items()
    ]
    return [{"items": [overview]}, *(section for section in sections if section["items"])]


def _address(link: _Link | _StaffLink, pages: Mapping[str, str | None]) -> str | None:
    """Return the link's address, None where the user may not see the page."""
    from tenants.admin.base import sees_all_firms

    if isinstance(link, _Link):
        return pages.get(link.model)
    return reverse(link.url_name) if sees_all_firms() else None


def _queue_styles(_: HttpRequest) -> str:
    return static("jobs/admin.css")


UNFOLD_SETTINGS: dict[str, Any] = {
    "SITE_TITLE": "Mailroom",
    "SITE_HEADER": "Mailroom",
    "SITE_SYMBOL": "mark_email_read",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": FAVICON}],
    "SHOW_VIEW_ON_SITE": False,
    "SHOW_HISTORY": False,
    "DASHBOARD_CALLBACK": "jobs.admin.dashboard.dashboard",
    "STYLES": [_queue_styles],
    "SIDEBAR": {"show_search": False, "navigation": navigation},
}
