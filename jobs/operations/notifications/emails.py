"""Sends e-mails through Django's backend."""

from __future__ import annotations

import smtplib
from collections.abc import Sequence
from email.utils import parseaddr

from django.conf import settings
from django.core.mail import EmailMessage

from jobs.errors import Fatal, Retryable
from jobs.execution.context import JobContext
from jobs.models import NotificationEndpoint
from jobs.operations.notifications.deliveries import recorded
from jobs.operations.notifications.notice_mark import NOTICE_HEADER, notice_mark
from jobs.states import Channel

# From this SMTP code on a server says that trying again cannot help.
PERMANENT = 500


def send_email(
    ctx: JobContext,
    to: Sequence[str],
    subject: str,
    body: str,
    *,
    event: str = "",
    endpoint: NotificationEndpoint | None = None,
    is_notice: bool = True,
) -> None:
    """Send one e-mail to all of `to`, and record it; a notice of the service's own is marked as one.

    Each attempt of a job sends the same Message-ID: after a crash in between, mail programs show
    the two as one.

    Raises:
        Fatal: the server refuses it for good.
        Retryable: it may take it later.
        Exception: whatever else the backend raises; the attempt may be repeated.
    """
    domain = parseaddr(settings.DEFAULT_FROM_EMAIL)[1].rpartition("@")[2]
    named = {"Message-ID": f"<{ctx.job_id}@{domain}>", "Auto-Submitted": "auto-generated"}
    if is_notice:
        named[NOTICE_HEADER] = notice_mark(ctx.job_id)
    message = EmailMessage(subject=subject, body=body, to=list(to), headers=named)
    with recorded(ctx, Channel.EMAIL, ", ".join(to), event=event, endpoint=endpoint):
        try:
            message.send()
        except smtplib.SMTPRecipientsRefused as error:
            codes = [code for code, _ in error.recipients.values()]
            raise _refusal("every recipient", min(codes, default=0)) from None
        except (smtplib.SMTPSenderRefused, smtplib.SMTPDataError) as error:
            raise _refusal("the mail", error.smtp_code) from None


def _refusal(what: str, code: int) -> Fatal | Retryable:
    """Return what a refusal comes to, by its code alone: its words may quote the mail."""
    error = Fatal if code >= PERMANENT else Retryable
    return error(f"the mail server refuses {what} ({code})")
