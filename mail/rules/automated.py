"""Was this mail written by a machine? Headers and the sender's address decide, never the text."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from mail.text.parsed import Address, Headers


class AutomatedKind(StrEnum):
    """What gave the machine away; the value is stored with the decision."""

    DELIVERY_REPORT = "delivery_report"
    AUTO_SUBMITTED = "auto_submitted"
    AUTO_RESPONSE = "auto_response"
    NULL_RETURN_PATH = "null_return_path"
    MAILING_LIST = "mailing_list"
    BULK = "bulk"
    ROBOT_SENDER = "robot_sender"


@dataclass(frozen=True, slots=True)
class AutomatedSignal:
    """The signal found, and the header it stands in (``From`` for the sender's address)."""

    kind: AutomatedKind
    header: str


_ROBOT: Final = re.compile(
    r"no-?reply|do-?not-?reply|mailer-daemon|postmaster|notification|bounce|newsletter|listserv|majordomo"
    # Local parts that programs send under, alone or next to a tag.
    r"|(?:^|-)(?:alerts?|notify|nobody|mailing-?list|subscriptions?|subscriber|digest"
    r"|dev-?null|rss-?feeds?)(?:[-+][^@]*)?@"
    # A hexadecimal tag that names the message being answered; digits alone may be a phone number.
    r"|[-+](?=[0-9]*[a-f])[0-9a-f]{14,}@"
)
# A program's only as the whole local part, because people have these names, too, after a dot.
_ROBOT_WHOLE: Final = re.compile(r"(?:^|[-+])(?:mailer|list)(?:[-+][^@]*)?@")
# What mail servers call themselves in reports of failed deliveries; people do not.
_SERVER_NAME: Final = re.compile(
    r"\W*(?:mailer[- ]daemon|mail delivery (?:sub)?system|mail administrator|postmaster)\W*",
    re.IGNORECASE,
)
_LIST_SENDER: Final = re.compile(
    r"(?:^|<)owner-|-owner(?:\+[^@]*)?@|@listserv\."
    # Only as a subdomain, because providers such as list.ru give mailboxes to people.
    r"|@(?:[^@>]*\.)?lists?\.(?!(?:co|com|org|net|ac|gov)\.)[^.@>]+\."
    # Addresses that failed deliveries return to, often with the recipient or a number in them.
    r"|(?:^|[<.+_-])bounces?(?:[.+=_-][^@]*)?@|[@.]bounce[sd]?\.",
    re.IGNORECASE,
)
# The address for requests to a list's program; searched only in headers that name the sender.
_LIST_REQUEST: Final = re.compile(r"-request(?:\+[^@]*)?@", re.IGNORECASE)
_SEPARATORS: Final = str.maketrans("._", "--")
_PRESENCE: Final = (
    ("X-Autoreply", AutomatedKind.AUTO_RESPONSE),
    ("X-Autorespond", AutomatedKind.AUTO_RESPONSE),
    ("List-Id", AutomatedKind.MAILING_LIST),
    ("List-Unsubscribe", AutomatedKind.MAILING_LIST),
    ("List-Post", AutomatedKind.MAILING_LIST),
    ("List-Help", AutomatedKind.MAILING_LIST),
    ("List-Subscribe", AutomatedKind.MAILING_LIST),
    ("List-Owner", AutomatedKind.MAILING_LIST),
    ("List-Archive", AutomatedKind.MAILING_LIST),
    ("Mailing-List", AutomatedKind.MAILING_LIST),
    ("X-Mailing-List", AutomatedKind.MAILING_LIST),
    ("X-BeenThere", AutomatedKind.MAILING_LIST),
    ("X-Mailman-Version", AutomatedKind.MAILING_LIST),
    ("X-ListProcessor-Version", AutomatedKind.MAILING_LIST),
    ("Errors-To", AutomatedKind.MAILING_LIST),
    ("X-Failed-Recipients", AutomatedKind.DELIVERY_REPORT),
    ("X-Auto-Response-Suppress", AutomatedKind.BULK),
    ("Feedback-ID", AutomatedKind.BULK),
)
_PRECEDENCE: Final = {
    "auto_reply": AutomatedKind.AUTO_RESPONSE,
    "list": AutomatedKind.MAILING_LIST,
    "bulk": AutomatedKind.BULK,
    "junk": AutomatedKind.BULK,
}


def automated_signal(sender: Address, headers: Headers) -> AutomatedSignal | None:
    """Return the strongest sign that a program sent the mail, or None.

    Such mail never gets a reply or a draft, so that programs do not go on answering each other.
    """
    media_type = (headers.get("Content-Type") or "").partition(";")[0].strip().lower()
    if media_type == "multipart/report":
        return AutomatedSignal(AutomatedKind.DELIVERY_REPORT, "Content-Type")
    if is_auto_submitted(headers):
        return AutomatedSignal(AutomatedKind.AUTO_SUBMITTED, "Auto-Submitted")
    for name, kind in _PRESENCE:
        if name in headers:
            return AutomatedSignal(kind, name)
    precedence = _PRECEDENCE.get(_first_word(headers.get("Precedence")))
    if precedence is not None:
        return AutomatedSignal(precedence, "Precedence")
    return_path = headers.get("Return-Path")
    if return_path is not None and return_path.replace(" ", "") in {"<>", ""}:
        return AutomatedSignal(AutomatedKind.NULL_RETURN_PATH, "Return-Path")
    for name in ("Sender", "Return-Path"):
        value = headers.get(name) or ""
        if _LIST_SENDER.search(value) or _LIST_REQUEST.search(value):
            return AutomatedSignal(AutomatedKind.MAILING_LIST, name)
    if _is_robot(sender):
        return AutomatedSignal(AutomatedKind.ROBOT_SENDER, "From")
    return None


def is_auto_submitted(headers: Headers) -> bool:
    """Say whether a program sent the mail by itself, as RFC 3834 lets it say; the owner's may, too."""
    return _first_word(headers.get("Auto-Submitted")) not in {"", "no"}


def _is_robot(sender: Address) -> bool:
    if _ROBOT.search(sender.key.translate(_SEPARATORS)) or _ROBOT_WHOLE.search(sender.key):
        return True
    if _LIST_SENDER.search(sender.key):
        return True
    if _SERVER_NAME.fullmatch(sender.name):
        return True
    # An empty address, as in `From: MAILER-DAEMON <>`, cannot be answered.
    return not sender.address and "<>" in sender.name.replace(" ", "")


def _first_word(value: str | None) -> str:
    words = (value or "").lower().replace(";", " ").split()
    return words[0] if words else ""
