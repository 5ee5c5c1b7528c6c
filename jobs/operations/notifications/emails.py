"""Sends e-mails through Django's backend."""

from __future__ import annotations

import hashlib
import smtplib
from collections.abc import Callable, Sequence
from email.utils import parseaddr
from typing import Any, Final

from django.conf import settings
from django.core import mail, signing
from django.core.mail import EmailMessage
from django.core.mail.backends.base import BaseEmailBackend

from jobs.errors import Fatal, Retryable
from jobs.execution.context import JobContext
from jobs.models import NotificationEndpoint
from jobs.operations.notifications.deliveries import SEPARATOR, delivered_by, recorded
from jobs.states import Channel

# The lowest SMTP code of a permanent refusal.
PERMANENT = 500
# The step that sends the mail to all recipients. A step for one recipient is named by the address.
TO_ALL = "all recipients"
MAX_STEP_NAME = 200

NOTICE_HEADER: Final = "X-Mailroom-Notice"
# Signed for one subject and text, so that a stranger can neither invent nor copy a header that hides
# a message from Mailroom.
_SIGNER = signing.Signer(salt="mail.notice", sep=":")


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

    An address gets one e-mail of a job. Each attempt sends the same Message-ID, so that mail
    programs show one message if a crash before the record led to two. If the server accepts the
    mail for some recipients and refuses others, this and the next attempts send it to each refused
    one alone, and not again to the others. A recipient added later in a corrected payload gets it
    alone, too.

    Raises:
        Fatal: the server refuses it for good.
        Retryable: the server may accept it later.
        Exception: whatever else the backend raises; the attempt may be repeated.
    """
    domain = parseaddr(settings.DEFAULT_FROM_EMAIL)[1].rpartition("@")[2]
    named = {"Message-ID": f"<{ctx.job_id}@{domain}>", "Auto-Submitted": "auto-generated"}
    if is_notice:
        named[NOTICE_HEADER] = notice_mark(subject, body)

    def send(addresses: Sequence[str]) -> list[str]:
        before = delivered_by(ctx, Channel.EMAIL)
        have_it = {one for delivery in before for one in delivery.recipient.split(SEPARATOR)}
        if served := [one for one in addresses if one in have_it]:
            return served
        message = EmailMessage(subject=subject, body=body, to=list(addresses), headers=named)
        recipients = SEPARATOR.join(addresses)
        with recorded(ctx, Channel.EMAIL, recipients, event=event, endpoint=endpoint) as row:
            refused = _send(message)
            served = [one for one in addresses if one not in refused]
            row.recipient = SEPARATOR.join(served)
        return served

    if len(to) == 1:
        send(to)
    else:
        served = ctx.step(TO_ALL, send, to)
        _send_to_each(ctx, [one for one in to if one not in served], send)


def _send_to_each(
    ctx: JobContext, addresses: Sequence[str], send: Callable[[Sequence[str]], list[str]]
) -> None:
    """Send to each address alone, once in the job's life, even if others are refused."""
    refusals: list[Fatal | Retryable] = []
    for address in addresses:
        try:
            ctx.step(address[:MAX_STEP_NAME], send, [address])
        except (Fatal, Retryable) as error:
            refusals.append(error)
    # A refusal that may pass is raised first: a permanent one would end the job.
    refusals.sort(key=lambda error: isinstance(error, Fatal))
    if refusals:
        raise refusals[0]


def _send(message: EmailMessage) -> list[str]:
    """Send it; return the recipients that the server refused while it accepted others."""
    refused: list[int] = []
    try:
        with _default_backend() as backend:
            _note_refused(getattr(backend, "connection", None), refused)
            backend.send_messages([message])
    except smtplib.SMTPRecipientsRefused as error:
        codes = [code for code, _ in error.recipients.values()]
        raise _refusal("every recipient", min(codes, default=0)) from None
    except (smtplib.SMTPSenderRefused, smtplib.SMTPDataError) as error:
        raise _refusal("the mail", error.smtp_code) from None
    return [message.to[position] for position in refused]


def _default_backend() -> BaseEmailBackend:
    # From 6.1 on Django has mailers, and `get_connection` is deprecated.
    mailers = getattr(mail, "mailers", None)
    backend: BaseEmailBackend = mail.get_connection() if mailers is None else mailers.default
    return backend


def _note_refused(client: object, refused: list[int]) -> None:
    """Add to `refused` the positions of refused recipients: Django's backend reports none."""
    if not isinstance(client, smtplib.SMTP):
        return
    sendmail = client.sendmail

    def noting(sender: str, recipients: Sequence[str], mail: bytes) -> dict[str, Any]:
        found = sendmail(sender, recipients, mail)
        refused.extend(place for place, one in enumerate(recipients) if one in found)
        return found

    client.sendmail = noting  # type: ignore[method-assign,assignment]


def _refusal(what: str, code: int) -> Fatal | Retryable:
    """Return the error for a refusal, with its code but not its text, which may quote the mail."""
    error = Fatal if code >= PERMANENT else Retryable
    return error(f"the mail server refused {what} ({code})")


def notice_mark(subject: str, body: str) -> str:
    """Return the header's value for a notice of this subject and text."""
    return _SIGNER.sign(_digest(subject, body))


def is_notice_mark(value: str, subject: str, body: str) -> bool:
    """Say whether the service signed this value for this subject and text."""
    try:
        return _SIGNER.unsign(value.strip()) == _digest(subject, body)
    except signing.BadSignature:
        return False


def _digest(subject: str, body: str) -> str:
    # Mail servers may fold lines anew, so white space does not count.
    read = "\n".join("".join(text.split()) for text in (subject, body))
    return hashlib.sha256(read.encode(errors="replace")).hexdigest()
