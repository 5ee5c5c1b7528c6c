"""Reads the sample mailbox for the tests beside it, with the standard library only."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from email import message_from_bytes, policy
from email.header import decode_header
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from functools import cache, cached_property

from tests.support.paths import ROOT as REPOSITORY

ROOT = REPOSITORY / "mail" / "sample"
OWNER = "tereza.holubova@bramleykos.example"
_MESSAGE_ID = re.compile(r"<[^<>\s]+>")


@dataclass(frozen=True)
class Expected:
    """One row of expected.csv: the categories a person would accept, best first."""

    categories: tuple[str, ...]
    why: str


@dataclass(frozen=True)
class Sample:
    """One message file of the sample mailbox."""

    name: str
    raw: bytes

    @cached_property
    def message(self) -> EmailMessage:
        """The message as the strict modern parser sees it."""
        return message_from_bytes(self.raw, policy=policy.default)

    @property
    def received_mail(self) -> bool:
        """Whether the file lies in the inbox (else the owner sent it)."""
        return self.name.startswith("inbox/")

    @cached_property
    def head(self) -> bytes:
        """The header block with LF line ends."""
        return self.raw.replace(b"\r\n", b"\n").split(b"\n\n", 1)[0] + b"\n"

    def header(self, name: str) -> str | None:
        """Return the first value of a header, unfolded but not decoded; None when it is absent."""
        for key, value in self.message.raw_items():
            if key.lower() == name.lower():
                return re.sub(r"\r?\n[ \t]+", " ", str(value))
        return None

    def decoded_header(self, name: str) -> str:
        """Return a header with its encoded words decoded; "" when it is absent."""
        value = self.header(name) or ""
        return "".join(
            chunk.decode(charset or "ascii", "replace") if isinstance(chunk, bytes) else chunk
            for chunk, charset in decode_header(value)
        )

    def parts(self) -> Iterator[EmailMessage]:
        """Yield every part that is no container, those of attached messages included."""
        for part in self.message.walk():
            if not part.is_multipart():
                assert isinstance(part, EmailMessage)
                yield part

    def texts(self, subtype: str = "") -> Iterator[str]:
        """Yield the decoded text parts, all or those of one subtype."""
        for part in self.parts():
            if part.get_content_maintype() != "text":
                continue
            if subtype in {"", part.get_content_subtype()}:
                yield content(part).decode(charset_of(part), "replace")

    @property
    def sent_at(self) -> datetime | None:
        """The Date header."""
        value = self.header("Date")
        return parsedate_to_datetime(value) if value else None

    @property
    def arrived_at(self) -> datetime | None:
        """The time in the topmost Received header; mail the owner sent has none."""
        value = self.header("Received")
        return parsedate_to_datetime(value.rpartition(";")[2]) if value else None

    @property
    def time(self) -> datetime:
        """When the message was sent; if that is unknown, when it arrived."""
        moment = self.sent_at or self.arrived_at
        assert moment is not None, f"{self.name} has no time at all"
        return moment

    @property
    def message_id(self) -> str | None:
        """The Message-ID header."""
        return self.header("Message-ID")

    @property
    def references(self) -> tuple[str, ...]:
        """All ids in References and In-Reply-To, oldest first, the direct parent last."""
        named = (self.header("References"), self.header("In-Reply-To"))
        found = [id_ for value in named if value for id_ in _MESSAGE_ID.findall(value)]
        return tuple(dict.fromkeys(found))


def content(part: EmailMessage) -> bytes:
    """Return a part's bytes after transfer decoding."""
    decoded = part.get_payload(decode=True)
    assert isinstance(decoded, bytes)
    return decoded


def charset_of(part: EmailMessage) -> str:
    """Return the declared charset of a text part."""
    return part.get_content_charset() or "us-ascii"


@cache
def all_samples() -> tuple[Sample, ...]:
    """Return every message of both folders, in file order."""
    paths = sorted(ROOT.glob("inbox/*.eml")) + sorted(ROOT.glob("sent/*.eml"))
    return tuple(Sample(f"{path.parent.name}/{path.name}", path.read_bytes()) for path in paths)


def inbox() -> tuple[Sample, ...]:
    """Return what the owner received."""
    return tuple(sample for sample in all_samples() if sample.received_mail)


def with_ids() -> dict[str, Sample]:
    """Return the messages by Message-ID (of a duplicate, the later one)."""
    return {sample.message_id: sample for sample in all_samples() if sample.message_id}


@cache
def expected() -> dict[str, Expected]:
    """Return expected.csv by file name."""
    with (ROOT / "expected.csv").open(encoding="utf-8", newline="") as file:
        return {
            row["file"]: Expected(tuple(row["category"].split("|")), row["why"])
            for row in csv.DictReader(file)
        }


def readme_section(title: str) -> str:
    """Return the text under one second-level heading of the sample's README."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return text.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
