"""What a profile's agent reads of a stored message."""

from __future__ import annotations

import json

from mail.models import Message, Preprocessor
from mail.services.sending.compose import stored_headers
from mail.text.helpdesk import Inquiry, crisp_inquiry, helpdesk_inquiry, plain_inquiry
from mail.text.parsed import Address

MAX_PROMPT_TEXT = 8000
MAX_ATTACHMENTS = 20
MAX_FILENAME = 200


def read_inquiry(message: Message, preprocessor: str) -> Inquiry:
    """Return who wrote the message and what it says, as the preprocessor reads it."""
    sender = Address(message.sender_name, message.sender_address)
    forwarded = {Preprocessor.CRISP: crisp_inquiry, Preprocessor.HELPDESK: helpdesk_inquiry}
    read = forwarded.get(Preprocessor(preprocessor))
    if read is None:
        return plain_inquiry(sender, message.subject, message.text)
    return read(sender, message.subject, message.text, stored_headers(message))


def inquiry_prompt(message: Message, inquiry: Inquiry) -> str:
    """Return the inquiry as one JSON object, so that nothing in it can pass for what follows it."""
    names = message.attachments.order_by("part_id").values_list("filename", flat=True)
    data = {
        "from": {"name": inquiry.name, "address": inquiry.address},
        "forwarded_by": message.sender_address
        if inquiry.address != message.sender_address.lower()
        else None,
        "subject": inquiry.subject,
        "received": f"{message.internal_date:%Y-%m-%dT%H:%MZ}",
        "attachments": [name[:MAX_FILENAME] for name in names[:MAX_ATTACHMENTS]],
        "text": inquiry.text[:MAX_PROMPT_TEXT],
    }
    return f"The message, as JSON:\n\n{json.dumps(data, ensure_ascii=False)}"
