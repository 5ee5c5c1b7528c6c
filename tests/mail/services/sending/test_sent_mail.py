"""Whether a draft in Gmail is still as Mailroom wrote it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from mail.gmail.mime import NAMELESS
from mail.models import OutboundMessage
from mail.services.drafting.gmail_drafts import GmailDraft, content_hash
from mail.services.sending.outbound import outgoing_mail
from mail.services.sending.sent_mail import is_untouched

pytestmark = pytest.mark.req("M-18")


def outbound(**columns: Any) -> OutboundMessage:
    """Return a message with two attachments, one of them without a name."""
    columns = {"subject": "Offer", "text": "Here it is."} | columns
    columns["attachments"] = [{"filename": "b.pdf"}, {"filename": ""}]
    sender = {"name": "", "address": "me@acme.example"}
    return OutboundMessage(sender=sender, to=[], cc=[], bcc=[], references=[], **columns)


def draft_of(message: OutboundMessage, *names: str) -> GmailDraft:
    """Return the draft that Mailroom wrote of the message, with files of these names."""
    files = tuple((name, 10) for name in names)
    of_content = content_hash(outgoing_mail(message), files)
    return GmailDraft("d-1", "m-1", "<1@acme.example>", message.text, of_content, "", files)


def test_a_draft_whose_ids_are_stored_is_untouched_while_its_message_is_the_same() -> None:
    message = outbound(gmail_draft_id="d-1", gmail_draft_message_id="m-1")
    draft = draft_of(message, "b.pdf", NAMELESS)
    assert is_untouched(message, draft)
    # Gmail gives the draft another message with each change.
    assert not is_untouched(message, replace(draft, gmail_message_id="m-2"))
    assert is_untouched(message, replace(draft, content_hash="written by another version"))


@pytest.mark.parametrize(
    "ids",
    [
        {},
        {"gmail_draft_id": "d-1"},
        {"gmail_draft_id": "d-0", "gmail_draft_message_id": "m-0"},
    ],
)
def test_a_draft_whose_ids_are_not_stored_is_untouched_while_its_content_is(ids: Any) -> None:
    message = outbound(**ids)
    draft = draft_of(message, NAMELESS, "b.pdf")
    assert is_untouched(message, draft)
    assert not is_untouched(message, replace(draft, content_hash="another"))
    assert not is_untouched(message, draft_of(message, "b.pdf"))
    assert not is_untouched(message, draft_of(message, "b.pdf", "c.pdf"))
    assert not is_untouched(outbound(**ids, text="Here it was."), draft)
