"""Messages in the admin: as text, and their HTML in a frame without scripts."""

from __future__ import annotations

from typing import Any, Final
from urllib.parse import urlencode

from django import forms
from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db.models import Q, QuerySet
from django.http import Http404, HttpRequest, HttpResponse
from django.template.defaultfilters import filesizeformat
from django.template.loader import render_to_string
from django.urls import URLPattern, path, reverse
from unfold.decorators import display

from interfaces.admin.base import column
from interfaces.admin.operations import Operation, OptionalReasonForm
from jobs.admin.base import Fact, age_column, exact
from mail.admin.account_operations import MailboxOperation
from mail.admin.base import (
    CATEGORY_LABELS,
    PRIVATE,
    ContentAdmin,
    subject_line,
)
from mail.admin.document import DOCUMENT_STATUS_LABELS
from mail.admin.filters import DirectionFilter, MessageCategoryFilter, ReceivedFilter
from mail.admin.message_timeline import shown_timeline
from mail.admin.scoped import may_make_any
from mail.models import CATEGORY_CHOICES, Document, MailLabel, Message
from mail.services.deciding.corrections import reclassify
from mail.services.documents.search import find_messages
from mail.services.documents.stranded import why_not_read, with_job_status
from mail.services.mailboxes.content_access import may_read, readable
from mail.text.html_tokens import Tag, tokens
from mail.text.sanitize import sanitize_html
from tenants.admin.base import FirmFilter, TenantOperationsAdmin, access_in
from tenants.models import Role
from tenants.scope import firm_scope

# Large columns, which lists do not show.
LARGE_COLUMNS = ("text", "html", "hidden_text", "headers", "snippet")
ROWS_SHOWN = 50
# Links open outside the frame; nothing else leaves it, and no script or form in it works.
POLICY: Final = (
    "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; "
    "style-src 'unsafe-inline'; img-src {images}; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'self'"
)


class ReclassifyForm(OptionalReasonForm):
    """The category of the thread."""

    field_order = ("category", "reason")
    category = forms.ChoiceField(
        required=False,
        label="Category",
        choices=[("", "Judge it once more"), *CATEGORY_CHOICES],
    )


def _search(messages: QuerySet[Any], term: str) -> QuerySet[Any]:
    if "@" in term:
        return messages.filter(
            Q(sender_address__iexact=term) | Q(message_id__in=[term, f"<{term}>"])
        )
    return messages.filter(gmail_message_id=term)


@admin.register(Message)
class MessageAdmin(TenantOperationsAdmin, ContentAdmin):
    """Messages as they were when fetched."""

    empty_text = "Mail is listed once a mailbox is connected and synced."
    operations = (
        MailboxOperation(
            name="reclassify",
            label="Reclassify",
            icon="category",
            form=ReclassifyForm,
            effect="The message's thread gets the category, and in Gmail the label. A rule for "
            "the sender is proposed; it does nothing until it is enabled.",
            perform=reclassify,
            report=lambda _: "The thread is being classified.",
        ),
    )
    change_form_template = "admin/mail/message/page.html"
    list_display = ("sender", "line", "category", "account", "firm", "received")
    list_select_related = ("firm", "account", "thread")
    list_filter = (MessageCategoryFilter, DirectionFilter, FirmFilter, ReceivedFilter)
    search_fields = ("subject",)
    search = staticmethod(_search)
    search_help_text = (
        "Words of the mail or their beginnings, sender's address, Gmail's id, Message-ID"
    )
    ordering = ("-internal_date", "-id")
    received = age_column("Received", "internal_date")
    sender = column(
        "From",
        lambda row: [row.sender_name or row.sender_address or "-", row.sender_address],
        header=True,
    )

    def get_queryset(self, request: HttpRequest) -> QuerySet[Message]:
        """Do not fetch the large columns for the list."""
        rows: QuerySet[Message] = super().get_queryset(request)
        return rows.defer(*LARGE_COLUMNS)

    def get_search_results(
        self, request: HttpRequest, queryset: QuerySet[Any], search_term: str
    ) -> tuple[QuerySet[Any], bool]:
        """Find readable messages by address, id or words."""
        found, may_repeat = super().get_search_results(request, queryset, search_term)
        if search_term.strip() and not found.exists():
            ids = find_messages(search_term, readable(request.user.pk, "account__"))
            found = queryset.filter(pk__in=ids)
        return found, may_repeat

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return the mail, and everything that happened to it, for the template."""
        thread = row.thread
        return {
            **super().page_context(request, row),
            "title": row.page_name,
            "subtitle": None,
            "message": row,
            "private": "" if row.is_readable else PRIVATE,
            "category": thread.get_classification_display() or "not classified",
            "category_label": CATEGORY_LABELS[thread.classification],
            "recipients": [("To", row.to), ("Cc", row.cc)],
            "labels": _label_names(row) if row.is_readable else [],
            "frame": _frame(request, row) if row.is_readable and row.html else None,
            "attachments": _attachments(row),
            "timeline": shown_timeline(request, row),
            "new_rule": _new_rule_address(request, row),
            "break_glass": _break_glass_address(request, row),
            "facts": _facts(row),
        }

    def get_urls(self) -> list[URLPattern]:
        """Add the URL of a mail's HTML, which the frame on its page loads."""
        view = self.admin_site.admin_view(self.html_view)
        own = path("<path:object_id>/html/", view, name=self.url_name("html"))
        return [own, *super().get_urls()]

    def html_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Show a reader the mail's HTML."""
        message: Any = self.get_object(request, object_id)
        if not message.is_readable:
            raise PermissionDenied
        with firm_scope(message.firm_id):
            if not message.html:
                raise Http404("the mail has no HTML")
            return html_answer(message.html, remote_images=_wants_images(request))

    def subject(self, row: Message) -> str:
        """Return the message's subject for operations, which only its readers get to see."""
        return subject_line(row.subject)

    def may(self, request: HttpRequest, operation: Operation, row: Any = None) -> bool:
        """Let the mailbox's owner decide, and operators who may read the mail."""
        if row is not None and not may_read(request.user.pk, row.account):
            return False
        if row is not None and row.account.owner_id == request.user.pk:
            return access_in(request).may(Role.VIEWER, row.firm_id)
        return super().may(request, operation, row)

    @display(description="Thread", label=CATEGORY_LABELS)
    def category(self, message: Message) -> tuple[str, str]:
        """Return the category of its thread."""
        thread = message.thread
        return thread.classification, thread.get_classification_display() or "not classified"


def _wants_images(request: HttpRequest) -> bool:
    """Say whether the user asked for remote images on this page."""
    return request.GET.get("images") == "1"


def _frame(request: HttpRequest, message: Message) -> dict[str, Any]:
    """Return the URL of the frame with the mail's HTML, and whether it leaves images out."""
    images = _wants_images(request)
    address = reverse("admin:mail_message_html", args=[message.pk])
    return {
        "address": f"{address}?images=1" if images else address,
        "images": images,
        "left_out": not images and has_remote_images(message.html),
    }


def _new_rule_address(request: HttpRequest, message: Message) -> str:
    """Return the URL of the form for a rule about such mail, if the user may use both."""
    if not (message.is_readable and may_make_any(request)):  # type: ignore[attr-defined]  # annotated
        return ""
    return f"{reverse('admin:mail_rule_new')}?{urlencode({'message': message.pk})}"


def _break_glass_address(request: HttpRequest, message: Message) -> str:
    """Return the URL of the break-glass page, if the user is an admin of the firm."""
    if not access_in(request).may(Role.ADMIN, message.firm_id):
        return ""
    return reverse("admin:mail_mailaccount_break-glass", args=[message.account_id])


def _label_names(message: Message) -> list[str]:
    known_labels = MailLabel.objects.filter(
        account_id=message.account_id, gmail_label_id__in=message.labels
    )
    names = dict(known_labels.values_list("gmail_label_id", "name"))
    return [names.get(label, label) for label in message.labels]


def _attachments(message: Message) -> list[tuple[Any, Any, str]]:
    """Return the attachments, each with its document (if any) and the colour of its status."""
    rows = with_job_status(message.documents.defer("content", "text"))
    documents = {one.attachment_id: one for one in rows}
    for one in documents.values():
        one.why = why_not_read(one)[1]
    return [
        (attachment, documents.get(attachment.pk), _colour(documents.get(attachment.pk)))
        for attachment in message.attachments.order_by("part_id")[:ROWS_SHOWN]
    ]


def _colour(document: Document | None) -> str:
    return "" if document is None else DOCUMENT_STATUS_LABELS[document.status]


def _facts(message: Message) -> list[Fact]:
    return [
        Fact("Account", message.account.address),
        Fact("Firm", message.firm.name),
        Fact("Received", exact(message.internal_date)),
        Fact("Fetched", exact(message.created_at)),
        Fact("Size", filesizeformat(message.size)),
        Fact("Text from", message.text_source),
        Fact("Gmail id", message.gmail_message_id, is_code=True),
        Fact("Message-ID", message.message_id, is_code=True),
    ]


def has_remote_images(html: str) -> bool:
    """Say whether the mail has remote images; fetching them tells the sender that it is read."""
    # Tokens are read in one pass, because a regular expression may take hours on unclosed tags.
    return any(
        isinstance(token, Tag)
        and token.name == "img"
        and token.attributes().get("src", "").strip().lower().startswith("https:")
        for token in tokens(html)
    )


def html_answer(html: str, *, remote_images: bool) -> HttpResponse:
    """Return the mail's HTML as a page; without `remote_images` it loads nothing from elsewhere."""
    body = sanitize_html(html, remote_images=remote_images)
    answer = HttpResponse(render_to_string("admin/mail/message/html.html", {"body": body}))
    images = "data: https:" if remote_images else "data:"
    answer.headers["Content-Security-Policy"] = POLICY.format(images=images)
    answer.headers["X-Frame-Options"] = "SAMEORIGIN"
    answer.headers["Referrer-Policy"] = "no-referrer"
    answer.headers["Cache-Control"] = "private, no-store"
    return answer
