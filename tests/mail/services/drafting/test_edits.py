"""A draft is the person's after any change of theirs; changes by mail programs do not count."""

from __future__ import annotations

from collections.abc import Callable
from email.message import EmailMessage
from html import escape

import pytest

from mail.labels import LabelKey
from mail.models import Draft
from tests.mail.draft_kit import (
    MARK,
    QUESTION,
    asked,
    change_draft,
    give_label,
    in_gmail,
    listed,
    prepared,
    synced,
    versions,
)
from tests.mail.mail_kit import Mailbox, letter, stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-19")]


def as_html(mail: EmailMessage, word: str = "", instead: str = "") -> None:
    """Give the draft an HTML part as Gmail's page does, with `word` replaced in it."""
    lines = escape(mail.get_content()).replace("\r\n", "\n").replace("\n", "<br>")
    assert word in lines
    shown = lines.replace(word, instead, 1)
    mail.add_alternative(f'<div dir="ltr" class="gmail_default">{shown}</div>', subtype="html")


def moved(mail: EmailMessage, name: str) -> None:
    mail[name] = str(mail["To"])
    del mail["To"]


def from_alias(mail: EmailMessage) -> None:
    del mail["From"]
    mail["From"] = "Sales <sales@acme.example>"


def broken(mail: EmailMessage, instead: str) -> None:
    mail.set_content(mail.get_content().replace("message about", f"message{instead}about", 1))


EDITS: dict[str, Callable[[EmailMessage], object]] = {
    "added to Cc": lambda mail: mail.add_header("Cc", "boss@acme.example"),
    "moved to Bcc": lambda mail: moved(mail, "Bcc"),
    "moved to Cc": lambda mail: moved(mail, "Cc"),
    "another From": from_alias,
    "a line break": lambda mail: broken(mail, "\n"),
    "a paragraph break": lambda mail: broken(mail, "\n\n"),
    "a link": lambda mail: as_html(mail, "message", '<a href="https://x.example/">message</a>'),
    "bold": lambda mail: as_html(mail, "message", "<b>message</b>"),
    "colour": lambda mail: as_html(mail, "message", '<span style="color:red">message</span>'),
    "struck out": lambda mail: as_html(mail, "message", "<s>message</s>"),
    "an image": lambda mail: as_html(mail, "message", 'message<img src="https://x.example/a.png">'),
}


@pytest.mark.parametrize("change", EDITS.values(), ids=EDITS)
def test_any_change_makes_the_draft_the_persons(
    mailbox: Mailbox, change: Callable[[EmailMessage], object]
) -> None:
    asked(prepared(mailbox))
    change_draft(mailbox, change)
    synced(mailbox)
    assert stored(Draft)[0].edited is True
    kept = listed(mailbox)
    asked(mailbox, f"One more thing. {QUESTION}", reply_to_id="<q1@customer.example>",
          message_id="<q2@customer.example>")  # fmt: skip
    assert listed(mailbox) == kept
    assert versions() == [("automatic", "ready", 0)]


def test_a_draft_that_gmail_stored_anew_as_it_was_is_still_mailrooms(mailbox: Mailbox) -> None:
    asked(prepared(mailbox))
    change_draft(mailbox, as_html)
    synced(mailbox)
    assert stored(Draft)[0].edited is False
    asked(mailbox, f"One more thing. {QUESTION}", reply_to_id="<q1@customer.example>",
          message_id="<q2@customer.example>")  # fmt: skip
    assert len(listed(mailbox)) == 1
    assert versions() == [("automatic", "withdrawn", 0), ("automatic", "ready", 0)]


def test_a_draft_to_a_domain_that_is_not_ascii_is_still_mailrooms(mailbox: Mailbox) -> None:
    prepared(mailbox).receive(
        letter(text=QUESTION).replace(b"anna@customer.example", "anna@bücher.example".encode())
    )
    synced(mailbox)
    assert in_gmail(mailbox)[0]["To"] == "Anna Novak <anna@xn--bcher-kva.example>"
    change_draft(mailbox, as_html)
    synced(mailbox)
    assert stored(Draft)[0].edited is False


@pytest.mark.parametrize(
    ("change", "left"),
    [
        (lambda mail: as_html(mail, MARK, f"<b>Shorter, please.</b><br>{MARK}"), "replaced"),
        (lambda mail: as_html(mail, "message", "<b>message</b>"), "kept"),
    ],
    ids=["an order in bold", "a bold word below the marker"],
)
def test_a_rework_replaces_a_draft_with_nothing_but_an_order_in_it(
    mailbox: Mailbox, change: Callable[[EmailMessage], object], left: str
) -> None:
    arrived = asked(prepared(mailbox))
    change_draft(mailbox, change)
    give_label(mailbox, arrived, LabelKey.REWORK)
    synced(mailbox)
    assert [status for _, status, _ in versions()] == [left, "ready"]
    assert len(in_gmail(mailbox)) == (2 if left == "kept" else 1)
