"""Stored messages as .eml files, made of their headers and their text."""

from __future__ import annotations

import re
from email.header import Header
from email.message import Message as MimeMessage
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText

from mail.models import Message

_HEADER_NAME = re.compile(r"[!-9;-~]{1,200}")
# Headers that describe the form of the old body, for which a new one is built.
_OF_THE_BODY = ("content-", "mime-version")
_NO_FILENAME = re.compile(r"[^\w.@+-]")


def eml_name(message: Message) -> str:
    """Return the file's name in an export: a folder for each mailbox."""
    folder = _NO_FILENAME.sub("_", message.account.address)
    return f"mail/{folder}/{message.pk}.eml"


def eml_of(message: Message) -> bytes:
    """Return the message: its headers as they came, its text, and its HTML as an alternative."""
    text = MIMEText(message.text, "plain", "utf-8")
    mail: MimeMessage = text
    if message.html:
        mail = MIMEMultipart("alternative", None, [text, MIMEText(message.html, "html", "utf-8")])
    for pair in message.headers:
        if not isinstance(pair, list) or len(pair) != 2:
            continue
        name, value = str(pair[0]), " ".join(str(pair[1]).split())
        if _HEADER_NAME.fullmatch(name) and not name.lower().startswith(_OF_THE_BODY):
            mail[name] = value if value.isascii() else Header(value, "utf-8").encode()
    return mail.as_bytes()
