"""The sample's files have no faults but intended ones, and name no real person."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter
from collections.abc import Iterator
from email.header import decode_header

import pytest

from tests.mail.sample.samples import (
    ROOT,
    Sample,
    all_samples,
    charset_of,
    content,
    readme_section,
)

RESERVED_DOMAIN = re.compile(r"(?:^|\.)(?:example|test|invalid|example\.(?:com|org))$")
DOMAIN = re.compile(r"(?:@|https?://)([a-z0-9-]+(?:\.[a-z0-9-]+)+)", re.IGNORECASE)
RECEIVED_HOST = re.compile(r"\b(?:from|by) ([a-z0-9-]+(?:\.[a-z0-9-]+)+)", re.IGNORECASE)
IP_ADDRESS = re.compile(r"\[(\d+\.\d+\.\d+\.\d+)\]")
DOCUMENTATION_NETWORKS = [
    ipaddress.ip_network(net) for net in ("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24")
]
PHONE = re.compile(r"(?<![\w.,/-])(?:\+\d{2} |0)[\d ]{8,}\d(?![\d/])")
FICTIONAL_PHONES = (
    "01144960",  # Sheffield
    "01632960",  # United Kingdom, no area
    "02079460",  # London
    "07700900",  # United Kingdom, mobile
    "03023125",  # Berlin
    "019900",  # Paris
)
IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){3,7}\b")


def readable(sample: Sample) -> str:
    """Return everything a person could read in a message: headers, texts, file names."""
    headers = " ".join(
        chunk.decode(charset or "ascii", "replace") if isinstance(chunk, bytes) else chunk
        for _, value in sample.message.raw_items()
        for chunk, charset in decode_header(str(value))
    )
    attached = (
        content(part).decode("latin-1")
        for part in sample.parts()
        if part.get_content_maintype() not in {"text", "image"}
    )
    return "\n".join([headers, *sample.texts(), *attached])


def faults(sample: Sample) -> Iterator[str]:
    """Yield what a strict reader would object to."""
    for name in ("From", "Date", "Subject", "Message-ID"):
        if sample.header(name) is None:
            yield f"no {name}"
    for part in sample.message.walk():
        yield from (type(defect).__name__ for defect in part.defects)
        for name, _ in part.raw_items():
            try:
                yield from (type(defect).__name__ for defect in part[name].defects)
            except ValueError as error:
                yield f"{name}: {error}"
    for part in sample.parts():
        body = content(part)
        if part.get_content_maintype() == "text":
            try:
                body.decode(charset_of(part))
            except UnicodeDecodeError:
                yield f"text is not {charset_of(part)}"
        if part.get("Content-Transfer-Encoding", "7bit") == "7bit" and not body.isascii():
            yield "8-bit text declared as 7bit"


@pytest.mark.req("M-06")
def test_exactly_the_files_listed_as_broken_are_broken() -> None:
    ids = Counter(sample.message_id for sample in all_samples() if sample.message_id)
    broken = {
        sample.name
        for sample in all_samples()
        if any(faults(sample)) or (sample.message_id and ids[sample.message_id] > 1)
    }
    listed = set(re.findall(r"`((?:inbox|sent)/[^`]+)`", readme_section("Broken on purpose")))
    assert broken == listed


@pytest.mark.parametrize("sample", all_samples(), ids=lambda sample: sample.name)
def test_every_domain_is_reserved(sample: Sample) -> None:
    received = sample.message.get_all("Received", [])
    hosts = DOMAIN.findall(readable(sample))
    hosts += [host for line in received for host in RECEIVED_HOST.findall(str(line))]
    assert hosts, "a message names at least its owner"
    assert [host for host in hosts if not RESERVED_DOMAIN.search(host.lower())] == []


def test_every_ip_address_is_kept_for_documentation() -> None:
    found = {
        ip for sample in all_samples() for ip in IP_ADDRESS.findall(sample.head.decode("latin-1"))
    }
    assert len(found) > 20
    for ip in found:
        assert any(ipaddress.ip_address(ip) in net for net in DOCUMENTATION_NETWORKS), ip


def test_every_telephone_number_is_kept_for_fiction() -> None:
    numbers = {
        number
        for sample in all_samples()
        for text in sample.texts()
        for number in PHONE.findall(text)
    }
    assert len(numbers) > 5
    for number in numbers:
        national = re.sub(r"^\+\d{2}", "0", number).replace(" ", "")
        assert national.startswith(FICTIONAL_PHONES), number


def test_no_bank_account_could_exist() -> None:
    for sample in all_samples():
        for iban in IBAN.findall(readable(sample)):
            compact = iban.replace(" ", "")
            digits = "".join(str(int(char, 36)) for char in compact[4:] + compact[:4])
            assert int(digits) % 97 != 1, f"{sample.name}: {iban}"


def test_git_keeps_the_bytes_as_they_are() -> None:
    attributes = (ROOT.parents[1] / ".gitattributes").read_text(encoding="utf-8").splitlines()
    assert "*.eml -text" in attributes
