"""Unfold's settings: title, icon, sidebar."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from django.templatetags.static import static
from django.urls import reverse

# The title, the icon, and the model whose list the entry opens, or the name of a page.
_SECTIONS = {
    "Queue": [
        ("Jobs", "list_alt", "jobs.JobQueue"),
        ("Triage board", "view_kanban", "triage-board"),
        ("Dead letters", "report", "jobs.DeadLetterQueue"),
        ("Batches", "stacks", "jobs.Batch"),
        ("Bulk runs", "playlist_play", "jobs.BulkRun"),
        ("Locks", "lock", "jobs.ConcurrencyLock"),
        ("Schedules", "event_repeat", "jobs.Schedule"),
        ("Schedule runs", "event_available", "jobs.ScheduleRun"),
        ("Pauses", "pause_circle", "jobs.Pause"),
        ("Rate limits", "speed", "jobs.RateLimit"),
        ("Circuit breakers", "electric_bolt", "jobs.CircuitBreaker"),
        ("Notification endpoints", "add_alert", "jobs.NotificationEndpoint"),
        ("Deliveries", "outgoing_mail", "jobs.Delivery"),
        ("Workers", "memory", "jobs.Worker"),
        ("Queue doctor", "stethoscope", "queue-doctor"),
    ],
    "Mail": [
        ("Accounts", "inbox", "mail.MailAccount"),
        ("Messages", "mail", "mail.Message"),
        ("Threads", "forum", "mail.MailThread"),
        ("Documents", "description", "mail.Document"),
        ("Rules", "rule_settings", "mail.Rule"),
        ("Labels", "label", "mail.MailLabel"),
        ("Routing rules", "alt_route", "mail.RoutingRule"),
        ("Agent profiles", "smart_toy", "mail.AgentProfile"),
        ("Agent schedules", "event_repeat", "mail.AgentSchedule"),
        ("Agent runs", "robot_2", "mail.AgentRun"),
        ("Directions", "assistant_direction", "mail.Direction"),
        ("Decisions", "rule", "mail.Decision"),
        ("Model calls", "neurology", "mail.LLMCall"),
        ("Actions", "bolt", "mail.Action"),
        ("Approvals", "how_to_reg", "mail.Approval"),
        ("Drafts", "edit_note", "mail.Draft"),
        ("Reply settings", "tune", "mail.ReplySettings"),
        ("Reply styles", "format_quote", "mail.ReplyStyle"),
        ("Reply templates", "article", "mail.ReplyTemplate"),
        ("Contacts", "contacts", "mail.Contact"),
        ("Reminders", "alarm", "mail.Reminder"),
        ("Notification preferences", "notifications", "mail.NotificationPreference"),
        ("Outbound messages", "outbox", "mail.OutboundMessage"),
        ("Events", "history", "mail.MailEvent"),
        ("Data requests", "folder_zip", "mail.DataRequest"),
    ],
    "Tenants": [
        ("Firms", "domain", "tenants.Firm"),
        ("Memberships", "group", "tenants.Membership"),
        ("API keys", "key", "tenants.ApiKey"),
        ("Audit log", "policy", "tenants.AuditEntry"),
        ("Users", "person", "auth.User"),
    ],
}

# An envelope, written out so that the tab icon needs no file of its own.
FAVICON = (
    "data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 32 32'>"
    "<rect width='32' height='32' rx='7' fill='%239810fa'/>"
    "<path d='M7 11h18v11H7z M7 11l9 7 9-7' fill='none' stroke='white' stroke-width='2'/></svg>"
)


def navigation(request: HttpRequest) -> list[dict[str, Any]]:
    """Return the sidebar for this user, with the pages that the user may see."""
    from django.contrib import admin

    from tenants.scope import sees_all_firms

    pages = {
        f"{app['app_label']}.{model['object_name']}": model["admin_url"]
        for app in admin.site.get_app_list(request)
        for model in app["models"]
    }
    if "jobs.DeadLetterQueue" in pages:
        pages["triage-board"] = reverse("admin:jobs_deadletterqueue_groups")
    if sees_all_firms():
        pages["queue-doctor"] = reverse("queue-doctor")
    overview = {"title": "Overview", "icon": "monitoring", "link": reverse("admin:index")}
    sections = [
        (
            title,
            [
                {"title": page_title, "icon": icon, "link": pages[page]}
                for page_title, icon, page in links
                if pages.get(page)
            ],
        )
        for title, links in _SECTIONS.items()
    ]
    items: list[dict[str, Any]] = [item for _, links in sections for item in links]
    _mark_active(request.path, items)
    shown = [{"title": title, "items": links} for title, links in sections if links]
    return [{"items": [overview]}, *shown]


def _mark_active(path: str, items: list[dict[str, Any]]) -> None:
    """Mark the entry of the opened page: the longest match, as a list's address begins others."""
    opened = max(
        (item["link"] for item in items if path.startswith(item["link"])), key=len, default=""
    )
    for item in items:
        item["active"] = bool(opened) and item["link"] == opened


def _queue_styles(_: HttpRequest) -> str:
    return static("interfaces/admin.css")


def _queue_scripts(_: HttpRequest) -> str:
    return static("interfaces/admin.js")


UNFOLD_SETTINGS: dict[str, Any] = {
    "SITE_TITLE": "Mailroom",
    "SITE_HEADER": "Mailroom",
    "SITE_SYMBOL": "mark_email_read",
    # There is no site but the admin: the theme's links to one would lead back here.
    "SITE_URL": None,
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": FAVICON}],
    "SHOW_VIEW_ON_SITE": False,
    "SHOW_HISTORY": False,
    "DASHBOARD_CALLBACK": "jobs.admin.dashboard.dashboard",
    "STYLES": [_queue_styles],
    "SCRIPTS": [_queue_scripts],
    "SIDEBAR": {"show_search": False, "navigation": navigation},
}
