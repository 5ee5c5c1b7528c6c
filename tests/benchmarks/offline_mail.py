"""The mail with which the offline classifier is measured: files become mails with an addressee.

Most of the mail is third parties' and stays outside the repository; an id names one file of it. The
rest was written for this purpose and is in written_mail/. The labels beside this module say what
the addressee would want of each mail (see offline_labels.md).
"""

from __future__ import annotations

import csv
import mailbox
import re
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

from mail.gmail.simulator.messages import message_part
from mail.gmail.simulator.mime import parse
from mail.llm.base import Category, MailContext
from mail.text.parse import parse_message
from mail.text.parsed import Address, Headers, ParsedMail

LABELS: Final = Path(__file__).with_name("offline_labels.csv")
WRITTEN: Final = Path(__file__).with_name("written_mail")
_WRITTEN_FOLDER: Final = "written-"
COPY: Final = "#copy"
"""Ends the id of a mailing list's message seen as the copy that its first addressee got directly."""
READER, WRITER = "reader@mailbox.example", "writer@elsewhere.example"

_FOLDERS: Final = {
    "easy-ham": "spamassassin/easy-ham-1",
    "hard-ham": "spamassassin/hard-ham-1",
    "spam": "spamassassin/spam-1",
    "mikel": "mikel-mail/spec/fixtures/emails",
    "crisp": "crisp-email-forward-parser/test/fixtures",
    "github": "github-email_reply_parser/test/emails",
    "talon": "mailgun-talon/tests/fixtures",
}
_LIST_HEADERS: Final = re.compile(
    r"list-.*|precedence|x-beenthere|x-mailman-version|sender|errors-to|return-path|delivered-to"
    r"|mailing-list|x-mailing-list|x-loop|x-egroups-.*|x-original-date",
    re.IGNORECASE,
)
_LIST_FOOTER: Final = re.compile(r"\n(?:_{20,}|-{20,}|-- \nIrish Linux Users)")
_FOOTER_CHARS: Final = 800


@dataclass(frozen=True)
class Mail:
    """A mail of a folder, as it is in its addressee's mailbox."""

    id: str
    context: MailContext

    @property
    def is_copy(self) -> bool:
        """Whether the mail is a list's message without what the list added."""
        return self.id.endswith(COPY)

    @property
    def is_written(self) -> bool:
        """Whether the mail was written for this purpose."""
        return self.id.startswith(_WRITTEN_FOLDER)

    @property
    def folder(self) -> str:
        """The folder of the mail; the mails of a folder are held out together."""
        return self.id.partition("/")[0]


def ids(data: Path) -> list[str]:
    """Return the ids of all mails."""
    found = []
    for folder, path in _FOLDERS.items():
        root = data / path
        for file in sorted(root.rglob("*")):
            if file.is_file() and file.name != "LICENSE":
                name = file.relative_to(root).as_posix()
                found.append(f"{folder}/{name[:5] if 'spamassassin' in path else name}")
    return found


def load(data: Path, mail_id: str) -> Mail:
    """Read the mail with this id."""
    folder, _, name = mail_id.removesuffix(COPY).partition("/")
    if folder.startswith(_WRITTEN_FOLDER):
        raw = _written(folder.removeprefix(_WRITTEN_FOLDER))[int(name) - 1]
        return _as_mail(mail_id, raw)
    root = data / _FOLDERS[folder]
    file = (
        next(root.glob(f"{name}.*")) if folder in {"easy-ham", "hard-ham", "spam"} else root / name
    )
    raw = file.read_bytes()
    if folder in {"crisp", "github"} or (folder == "talon" and file.suffix != ".eml"):
        raw = _wrapped(raw, folder, html=file.suffix == ".html")
    return _as_mail(mail_id, raw)


@cache
def _written(box: str) -> list[bytes]:
    """Return the mails of a box in their order; their ids are their positions, from 1."""
    return [bytes(one) for one in mailbox.mbox(WRITTEN / f"{box}.mbox", create=False)]


def _as_mail(mail_id: str, raw: bytes) -> Mail:
    mail = parse_message({"payload": message_part(parse(raw))})
    if mail_id.endswith(COPY):
        mail = _direct_copy(mail)
    own = _addressee(mail, person_only=mail_id.endswith(COPY))
    wrote_last = mail.sender.key in own
    return Mail(mail_id, context_of(mail, own, wrote_last=wrote_last))


def context_of(mail: ParsedMail, own: frozenset[str], *, wrote_last: bool = False) -> MailContext:
    """Return the context of a parsed mail that is alone in its thread."""
    return MailContext(
        sender=mail.sender,
        own_addresses=own,
        subject=mail.subject,
        text=mail.text,
        headers=mail.headers,
        to=mail.to,
        cc=mail.cc,
        hidden_text=mail.hidden_text,
        attachments=mail.attachments,
        calendar_method=mail.calendar_method,
        user_wrote_last=wrote_last,
    )


def labels() -> dict[str, Category]:
    """Return the label of each mail that has one."""
    with LABELS.open(encoding="utf-8", newline="") as file:
        return {row["id"]: Category(row["label"]) for row in csv.DictReader(file)}


def _wrapped(text: bytes, folder: str, *, html: bool) -> bytes:
    """Make a mail of a text without headers, from a person to the reader only."""
    subject = {"crisp": "Fwd: ", "github": "Re: "}.get(folder, "")
    answers = "In-Reply-To: <1@mailbox.example>\r\n" if folder == "github" else ""
    head = (
        f"From: A Writer <{WRITER}>\r\nTo: {READER}\r\nSubject: {subject}\r\n{answers}"
        f"Message-ID: <2@elsewhere.example>\r\nMIME-Version: 1.0\r\n"
        f"Content-Type: text/{'html' if html else 'plain'}; charset=utf-8\r\n\r\n"
    )
    return head.encode() + text


def _direct_copy(mail: ParsedMail) -> ParsedMail:
    """Remove what the mailing list added."""
    pairs = tuple(one for one in mail.headers if not _LIST_HEADERS.fullmatch(one[0]))
    text = mail.text
    footers = [one.start() for one in _LIST_FOOTER.finditer(text)]
    if footers and footers[-1] >= len(text) - _FOOTER_CHARS:
        text = text[: footers[-1]]
    return replace(mail, headers=Headers(pairs), text=text)


def _addressee(mail: ParsedMail, *, person_only: bool) -> frozenset[str]:
    """Return the addresses of the mailbox: where the mail was delivered, else the first named."""
    named = [one.key for one in (*mail.to, *mail.cc) if one.key not in {"", mail.sender.key}]
    if not person_only:
        for header in ("Delivered-To", "X-Original-To", "Envelope-To"):
            delivered = (mail.headers.get(header) or "").strip().lower()
            local = delivered.partition("@")[0]
            if local:
                same = {one for one in named if _local(one) == local}
                return frozenset({delivered, *same, *_own_sender(mail.sender, local)})
    return frozenset(named[:1])


def _own_sender(sender: Address, local: str) -> set[str]:
    return {sender.key} if _local(sender.key) == local else set()


def _local(address: str) -> str:
    return address.partition("@")[0].partition("+")[0]
