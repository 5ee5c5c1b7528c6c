"""Mail accounts in the admin."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from unfold.decorators import display

from interfaces.admin.base import column
from interfaces.admin.operations import Operation
from jobs.admin.base import age_column, exact, link
from mail.admin.account_operations import CONNECT, RECONNECT, ROW_OPERATIONS, MailboxOperation
from mail.admin.account_reading import ATTACHMENTS, SYNC_OPERATIONS, attachments_text
from mail.admin.base import CONNECTION_LABELS, SYNC_STATUS_LABELS, MailAdmin
from mail.admin.briefing import briefing_page
from mail.admin.consent import begin_consent
from mail.admin.filters import ConnectionFilter, ModeFilter, SyncStatusFilter
from mail.conf import pubsub_topic
from mail.gmail.oauth import REQUIRED_SCOPES
from mail.models import MailAccount, MailCredential
from mail.services.mailboxes.change import lock_mailbox
from mail.services.mailboxes.content_access import may_read, readers
from mail.services.syncing.watch import is_lapsed
from tenants.admin.base import ActiveFilter, FirmFilter, TenantOperationsAdmin, access_in
from tenants.models import Role
from tenants.scope import firm_scope


def _briefing(account: MailAccount) -> SafeString:
    address = reverse("admin:mail_mailaccount_briefing", args=[account.pk])
    return link(address, "What waits for its owner")


def _readers(account: MailAccount) -> SafeString | str:
    if account.shared:
        return "Every member of the firm"
    rows = [
        (
            grant.user,
            grant.get_kind_display(),
            grant.granted_by,
            exact(grant.expires_at) or "it is withdrawn",
        )
        for grant in readers(account)
    ]
    return format_html_join("", "<div>{}: {}, by {}, until {}</div>", rows) or "Only its owner"


def _permission(account: MailAccount) -> SafeString | str:
    credential = MailCredential.objects.filter(account=account).only("scopes").first()
    rows = [
        (scope.rpartition("/")[2] or scope, REQUIRED_SCOPES.get(scope, "Not asked for."))
        for scope in (credential.scopes if credential else [])
    ]
    return format_html_join("", "<div><code>{}</code> {}</div>", rows) or "-"


def _follow_ups(account: MailAccount) -> str:
    days = account.follow_up_days
    if days is None:
        return "None"
    return f"After {days} {'day' if days == 1 else 'days'} without an answer"


def _notifications(account: MailAccount) -> SafeString | str:
    if not pubsub_topic():
        return "Off: GMAIL_PUBSUB_TOPIC is not set"
    until = exact(account.watch_expires_at)
    state = "Expired at {}" if account.watch_expires_at else "Not watched yet"
    text = format_html(state if is_lapsed(account) else "Until {}", until)
    if account.watch_error:
        text = format_html("{}. Not renewed: {}", text, account.watch_error)
    return text


@admin.register(MailAccount)
class MailAccountAdmin(TenantOperationsAdmin, MailAdmin):
    """Mail accounts: connected or not, what Mailroom may do in them, and their sync."""

    empty_text = "No mailbox is connected yet."
    list_operations = (CONNECT,)
    operations = (*SYNC_OPERATIONS, *ROW_OPERATIONS, ATTACHMENTS)
    list_display = ("address", "link", "may_do", "state", "owner", "firm", "synced", "active")
    list_select_related = ("firm", "owner")
    list_filter = (ConnectionFilter, ModeFilter, ActiveFilter, SyncStatusFilter, FirmFilter)
    search_fields = ("address__istartswith",)
    search_help_text = "Beginning of the address"
    ordering = ("address",)
    fields = (
        "address",
        "briefing",
        "display_name",
        "provider",
        "firm",
        "owner",
        "may_read",
        "connection",
        "permission",
        "may_do",
        "follow_ups",
        "attachments",
        "active_since",
        "other_addresses",
        "active",
        "sync_status",
        "history_cursor",
        "last_sync_at",
        "notifications",
        "held_until",
        "last_error",
        "last_error_at",
        "delete_mail_at",
        "created_at",
    )
    briefing = column("Briefing", _briefing)
    synced = age_column("Last sync", "last_sync_at")
    may_read = column("Readers", _readers)
    permission = column("Granted", _permission)
    follow_ups = column("Follow-up reminders", _follow_ups)
    attachments = column("Attachments", attachments_text)
    notifications = column("Notifications", _notifications)
    other_addresses = column("Aliases", lambda row: ", ".join(row.aliases) or "-")
    link = column(
        "Connection",
        lambda row: (row.connection, row.get_connection_display()),
        label=CONNECTION_LABELS,
    )
    state = column(
        "Sync",
        lambda row: (row.sync_status, row.get_sync_status_display()),
        label=SYNC_STATUS_LABELS,
    )

    def may(self, request: HttpRequest, operation: Operation, row: Any = None) -> bool:
        """Compare roles; some operations are only for the owner, or for a role that stands in."""
        if isinstance(operation, MailboxOperation) and operation.for_owner and row is not None:
            if row.owner_id is not None and row.owner_id == request.user.pk:
                return access_in(request).may(Role.VIEWER, row.firm_id)
            stand_in = operation.stand_in
            return bool(stand_in) and access_in(request).may(Role(stand_in), row.firm_id)
        return super().may(request, operation, row)

    def lock_row(self, row: Any) -> Any:
        """Lock all firms' rows of the mailbox, because an operation may read other firms', too."""
        lock_mailbox(row)
        return super().lock_row(row)

    def respond(
        self, request: HttpRequest, operation: Operation, row: Any, made: Any
    ) -> HttpResponse:
        """Redirect somebody who connects a mailbox to Google's consent page."""
        if operation is CONNECT:
            return begin_consent(request, made.pk, None)
        if operation is RECONNECT:
            return begin_consent(request, row.firm_id, row)
        return super().respond(request, operation, row, made)

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[str]:
        """Leave out the briefing for those who may not read the mailbox: its page refuses them."""
        fields = super().get_fields(request, obj)
        with firm_scope(obj.firm_id):
            reads = may_read(request.user.pk, obj)
        return fields if reads else [name for name in fields if name != "briefing"]

    def get_urls(self) -> list[URLPattern]:
        """Add the briefing's page."""
        view = self.admin_site.admin_view(self.briefing_view)
        own = path("<path:object_id>/briefing/", view, name=self.url_name("briefing"))
        return [own, *super().get_urls()]

    def briefing_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show the briefing to a reader of the mailbox."""
        account: Any = self.get_object(request, object_id)
        with firm_scope(account.firm_id):
            if not may_read(request.user.pk, account):
                raise PermissionDenied
            return briefing_page(request, account).render()

    @display(description="Mode")
    def may_do(self, account: MailAccount) -> str:
        """Return the mailbox's mode, or how it is paused."""
        if account.paused_by:
            return account.get_paused_by_display()
        return account.get_mode_display()
