"""Short names for what the tests of sending do often."""

from __future__ import annotations

import email
import email.policy
from collections import Counter
from datetime import timedelta
from email.message import EmailMessage
from typing import Any

from jobs.engine.clock import database_now
from jobs.testing import frozen_time, run_job
from mail.models import MailAccount, OutboundMessage
from tenants.scope import all_firms, firm_scope
from tests.mail.mail_kit import Mailbox, jobs, only, stored


def at_once(mailbox: Mailbox) -> Mailbox:
    """Let the mailbox send its messages without delay."""
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(send_delay_seconds=0)
        mailbox.account.refresh_from_db()
    return mailbox


def answer(mailbox: Mailbox, gmail_id: str, text: str = "Gladly.", **more: Any) -> OutboundMessage:
    """Ask for an answer to a stored message."""
    from mail.services.sending.outbound import request_reply

    with firm_scope(mailbox.firm):
        return request_reply(mailbox.message(gmail_id), text=text, **more)


def forward(mailbox: Mailbox, gmail_id: str, to: Any, **more: Any) -> OutboundMessage:
    """Ask for a stored message to be passed on."""
    from mail.services.sending.outbound import request_forward

    with firm_scope(mailbox.firm):
        return request_forward(mailbox.message(gmail_id), to=to, **more)


def current(outbound: OutboundMessage) -> OutboundMessage:
    """Return the message as it stands in the table."""
    found: OutboundMessage = only(stored(OutboundMessage), pk=outbound.pk)
    return found


def sent(mailbox: Mailbox) -> list[EmailMessage]:
    """Return what is in the sent mail, oldest first."""
    page = mailbox.gmail.list_messages("in:sent", max_results=500)
    return [written(mailbox, one["id"]) for one in reversed(page.get("messages", []))]


def written(mailbox: Mailbox, gmail_id: str) -> EmailMessage:
    """Return a message in Gmail, parsed by the standard library."""
    import base64

    raw = mailbox.gmail.get_message(gmail_id, fmt="raw")["raw"]
    lines = base64.urlsafe_b64decode(raw).replace(b"\r\n", b"\n")
    parsed = email.message_from_bytes(lines, policy=email.policy.default)
    assert isinstance(parsed, EmailMessage)
    return parsed


def drafts(mailbox: Mailbox) -> int:
    """Count the drafts in Gmail."""
    return len(mailbox.gmail.find_drafts(""))


def attempts(outbound: OutboundMessage, most: int = 10) -> list[str]:
    """Run the message's job until it is over; return its status after each attempt."""
    statuses: list[str] = []
    while len(statuses) < most:
        live = [one for one in jobs("outbound.send") if one.pk == current(outbound).job_id]
        if not live:
            break
        with all_firms("test"):
            # `held_until` is a time of Python's clock, which `frozen_time` does not move.
            MailAccount.objects.update(held_until=None)
        with frozen_time(max(database_now(), live[0].scheduled_at) + timedelta(seconds=1)):
            statuses.append(run_job(live[0]).status)
    return statuses


def check_sent_once(mailbox: Mailbox) -> float:
    """Check that each message was sent once or needs a look; return the share that needs one."""
    times, rows = in_sent(mailbox), stored(OutboundMessage)
    ends = Counter((row.status, times[row.rfc822_id]) for row in rows)
    assert not ends.keys() - {("sent", 1), ("unknown", 1), ("unknown", 0)}, ends
    assert len({row.gmail_message_id for row in rows if row.status == "sent"}) == ends["sent", 1]
    return 1 - ends["sent", 1] / len(rows)


def in_sent(mailbox: Mailbox) -> Counter[str]:
    """Count the sent messages of each Message-ID, listed by label because a search may lag."""
    found: Counter[str] = Counter()
    page_token: str | None = None
    while True:
        page = mailbox.gmail.list_messages("", page_token, 500, label_id="SENT")
        for one in page.get("messages", []):
            headers = mailbox.gmail.get_message(one["id"], fmt="metadata")["payload"]["headers"]
            found.update(each["value"] for each in headers if each["name"] == "Message-ID")
        page_token = page.get("nextPageToken")
        if not page_token:
            return found
