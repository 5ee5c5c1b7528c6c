"""Renews watches, by which Gmail publishes a mailbox's changes for a week at most."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import structlog
from django.db.models import Count, Q
from django.utils import timezone

from mail.conf import pubsub_topic
from mail.errors import TopicRefused, WrongState
from mail.gmail.answers import Watch
from mail.gmail.client import GmailClient
from mail.gmail.errors import (
    REFRESH_IN_PROGRESS,
    GmailBadRequest,
    GmailConflict,
    GmailError,
    GmailForbidden,
    GmailNotFound,
)
from mail.labels import LABEL_NAMES, PAUSE_LABEL, LabelKey
from mail.models import MAX_ERROR_LENGTH, Connection, EventType, MailAccount, PushReceipt
from mail.services.mailboxes.accounts import in_firm_scope
from mail.services.operation import audit
from mail.services.queueing import request_watch
from mail.services.syncing.labels import known_label_id, refresh_labels
from mail.services.syncing.push import forget_old_receipts
from mail.services.timelines.events import record_event
from tenants.audit import SERVICE, Actor
from tenants.scope import all_firms, firm_scope

# Without SENT and DRAFT, only the next scheduled sync would find mail that the owner sends.
WATCHED_LABELS = ("INBOX", "SENT", "DRAFT")
# The labels by which a person asks Mailroom for something.
WATCHED_OWN_LABELS = (
    LABEL_NAMES[LabelKey.NEEDS_RESPONSE],
    LABEL_NAMES[LabelKey.REWORK],
    LABEL_NAMES[LabelKey.DONE],
    PAUSE_LABEL,
)
# Gmail publishes a test message at each watch, so that it knows.
_REMEDIES: Final[dict[type[GmailError], str]] = {
    # Without an @, because addresses are taken out of jobs' errors.
    GmailForbidden: "Gmail may not publish to the topic GMAIL_PUBSUB_TOPIC: grant its service account"
    " (gmail-api-push at system.gserviceaccount.com) the role Pub/Sub Publisher on it",
    GmailNotFound: "There is no topic GMAIL_PUBSUB_TOPIC: create it, or correct the setting",
    GmailBadRequest: "Gmail refuses GMAIL_PUBSUB_TOPIC: name a topic of the project that"
    " GOOGLE_CLIENT_ID belongs to, as projects/PROJECT/topics/TOPIC",
}

_log = structlog.get_logger("mail")


def renew_watch(account: MailAccount, gmail: GmailClient) -> dict[str, Any]:
    """Have Gmail publish the mailbox's changes for another week, and return the job's result.

    Raises:
        TopicRefused: Gmail cannot publish to the topic, whatever the mailbox.
        GmailError: Gmail refused for another reason.
            The mailbox's page shows either until a renewal succeeds.
    """
    topic = pubsub_topic()
    if not topic:
        return {"skipped": True, "reason": "GMAIL_PUBSUB_TOPIC is not set"}
    try:
        # Refreshed first, because Gmail refuses a watch that names a deleted label.
        refresh_labels(account, gmail)
        own = (known_label_id(account, label) for label in WATCHED_OWN_LABELS)
        answer = _watch(gmail, topic, [*WATCHED_LABELS, *(label for label in own if label)])
    except TopicRefused as error:
        _note_failure(account, str(error), reason=error.code)
        raise
    except GmailError as error:
        # Another job is refreshing the token, so this is no failure: the job is retried soon.
        if error.reason != REFRESH_IN_PROGRESS:
            _note_failure(account, str(error), reason=error.reason)
        raise
    expires_at = datetime.fromtimestamp(int(answer["expiration"]) / 1000, tz=UTC)
    with firm_scope(account.firm_id):
        MailAccount.objects.filter(pk=account.pk).update(
            watch_expires_at=expires_at, watch_error=""
        )
        forget_old_receipts(account)
    return {"expires_at": expires_at.isoformat()}


def _watch(gmail: GmailClient, topic: str, label_ids: Sequence[str]) -> Watch:
    try:
        try:
            return gmail.watch(topic, label_ids)
        except GmailConflict:
            # The setting was changed: Gmail has one watch for each mailbox and project.
            gmail.stop_watch()
            return gmail.watch(topic, label_ids)
    except (GmailForbidden, GmailNotFound, GmailBadRequest) as error:
        # Other reasons for 403 are the mailbox's: its scopes, or its domain's policy.
        if isinstance(error, GmailForbidden) and error.reason != "forbidden":
            raise
        raise TopicRefused(f"{_REMEDIES[type(error)]} ({error.status})") from error


def _note_failure(account: MailAccount, text: str, *, reason: str) -> None:
    with firm_scope(account.firm_id):
        rows = MailAccount.objects.filter(pk=account.pk)
        if rows.filter(watch_error="").exists():
            record_event(EventType.WATCH_FAILED, account, detail={"reason": reason})
        rows.update(watch_error=text[:MAX_ERROR_LENGTH])
    _log.warning("mail.watch_not_renewed", account_id=str(account.pk), reason=reason)


def warn_of_lapse(account: MailAccount) -> None:
    """Log that Gmail does not publish the mailbox's changes, which scheduled syncs still find."""
    if pubsub_topic() and is_lapsed(account):
        expired = account.watch_expires_at and account.watch_expires_at.isoformat()
        _log.warning("mail.watch_lapsed", account_id=str(account.pk), expired_at=expired)


def is_lapsed(account: MailAccount) -> bool:
    """Say whether Gmail does not publish the mailbox's changes, no longer or not yet."""
    return account.watch_expires_at is None or account.watch_expires_at <= timezone.now()


@in_firm_scope
def renew_watch_now(account: MailAccount, *, reason: str = "", by: Actor = SERVICE) -> None:
    """Have the mailbox's watch renewed.

    Raises:
        WrongState: no topic is configured, or the mailbox is not connected.
    """
    if not pubsub_topic():
        raise WrongState("GMAIL_PUBSUB_TOPIC is not set.")
    if account.connection != Connection.CONNECTED:
        raise WrongState("The mailbox is not connected.")
    request_watch(account)
    audit("mailbox.renew_watch", account, by, reason)


def count_watches() -> dict[str, int]:
    """Count the watches of all connected mailboxes: live, failed (the last renewal), lapsed.

    It is empty if no topic is configured.
    """
    if not pubsub_topic():
        return {}
    lapsed = Q(watch_expires_at=None) | Q(watch_expires_at__lte=timezone.now())
    with all_firms("metrics carry no firm", reading=True):
        counted = MailAccount.objects.filter(
            active=True, connection=Connection.CONNECTED, firm__active=True
        ).aggregate(
            live=Count("pk", filter=~lapsed),
            failed=Count("pk", filter=~Q(watch_error="")),
            lapsed=Count("pk", filter=lapsed),
        )
    return {state: int(number) for state, number in counted.items()}


def last_push_age() -> float | None:
    """Return how many seconds ago the last push was taken; None before the first."""
    with all_firms("metrics carry no firm", reading=True):
        # Ids grow with time.
        last = PushReceipt.objects.order_by("-pk").values_list("received_at", flat=True).first()
    return None if last is None else max((timezone.now() - last).total_seconds(), 0.0)
