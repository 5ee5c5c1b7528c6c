"""The nine Gmail labels through which Mailroom talks to the person who reads the mail."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

from mail.conf import snooze_label


class LabelKey(StrEnum):
    """How the code names a label; Gmail's own id for it is kept per account."""

    PARENT = "parent"
    NEEDS_RESPONSE = "needs_response"
    OUTBOX = "outbox"
    REWORK = "rework"
    ACTION_REQUIRED = "action_required"
    PAYMENT_REQUEST = "payment_request"
    FYI = "fyi"
    WAITING = "waiting"
    DONE = "done"


LABEL_NAMES: Final[dict[LabelKey, str]] = {
    LabelKey.PARENT: "🤖 AI",
    LabelKey.NEEDS_RESPONSE: "🤖 AI/Needs Response",
    LabelKey.OUTBOX: "🤖 AI/Outbox",
    LabelKey.REWORK: "🤖 AI/Rework",
    LabelKey.ACTION_REQUIRED: "🤖 AI/Action Required",
    LabelKey.PAYMENT_REQUEST: "🤖 AI/Payment Requests",
    LabelKey.FYI: "🤖 AI/FYI",
    LabelKey.WAITING: "🤖 AI/Waiting",
    LabelKey.DONE: "🤖 AI/Done",
}
"""The name shown in Gmail; the parent comes first, as it must exist before its children."""

KEYS: Final = {name.casefold(): key for key, name in LABEL_NAMES.items()}
"""The key by the name in Gmail, casefolded."""

USER_LABEL_ID: Final = re.compile(r"Label_\d+")
"""The form of Gmail's ids for labels of people, which nobody would choose as a name."""

STATE_LABELS: Final[frozenset[LabelKey]] = frozenset(LabelKey) - {LabelKey.PARENT, LabelKey.DONE}
"""The labels that show a thread's state; the label Done removes all of them and stays."""

GMAIL_LABELS: Final = frozenset(
    {
        "INBOX", "UNREAD", "STARRED", "IMPORTANT", "SENT", "DRAFT", "SPAM", "TRASH", "CHAT",
        "CATEGORY_PERSONAL", "CATEGORY_SOCIAL", "CATEGORY_PROMOTIONS", "CATEGORY_UPDATES",
        "CATEGORY_FORUMS",
    }
)  # fmt: skip
"""Gmail's system labels: their ids are the same in every mailbox, and no other label's name."""

PAUSE_LABEL: Final = "🤖 AI/Pause"
"""While any message has this label, Mailroom writes nothing to the mailbox."""


def is_own_label(name: str) -> bool:
    """Say whether the name, in any case, is one of Mailroom's labels: setting it is an order."""
    folded, parent = name.strip().casefold(), LABEL_NAMES[LabelKey.PARENT].casefold()
    return folded in (parent, snooze_label().casefold()) or folded.startswith(f"{parent}/")
