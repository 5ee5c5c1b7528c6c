"""What Mailroom writes says to whom it goes, whatever names people have."""

from __future__ import annotations

import email
import email.policy
import re
from email.header import decode_header, make_header
from email.message import Message
from email.utils import getaddresses
from random import Random

import pytest

from mail.errors import OutboundInvalid
from mail.gmail.mime import OutgoingMail, build_mail
from mail.text.parsed import Address

pytestmark = pytest.mark.req("M-18")

TO = ["anna@customer.example", "bob@partner.example"]
EVE = "<eve@evil.example>"
PIECES = [*'abc ,;<>@"\\()[]:.=?_é你\u202e😀\xa0', f" {EVE}, ", "=?utf-8?q?x?=", "Sales, "]


def written(name: str, *, subject: str = "", domain: str = "") -> Message:
    """Return a message to Anna, who has this name, and to Bob, as programs read it."""
    anna, bob = TO
    mail = OutgoingMail(
        sender=Address(name, "owner@acme.example"),
        to=(Address(name, f"anna@{domain}" if domain else anna), Address("", bob)),
        subject=subject,
        text="Gladly.",
        message_id="<one@acme.example>",
    )
    raw = build_mail(mail)
    head = raw.partition(b"\r\n\r\n")[0]
    assert max(len(line) for line in head.split(b"\r\n")) <= 998
    read = email.message_from_bytes(raw)
    strictly = email.message_from_bytes(raw, policy=email.policy.default)
    assert [one.addr_spec for one in strictly["To"].addresses] == recipients(read)
    return read


@pytest.mark.parametrize("name", ["é" * 400, "Žofie Nováková", "=?", "a" * 451])
def test_encoded_words_and_their_lines_are_as_short_as_programs_may_expect(name: str) -> None:
    mail = OutgoingMail(
        sender=Address(name, f"{'owner' * 12}@acme.example"),
        to=(Address(name, TO[0]), Address(name, f"{'bob' * 20}@partner.example")),
        cc=(Address(name, TO[1]),),
        subject=name,
        message_id="<one@acme.example>",
    )
    head = build_mail(mail).decode().partition("\r\n\r\n")[0]
    lines = [line for line in head.split("\r\n") if "=?" in line]
    words = [word for line in lines for word in re.findall(r"=\?\S+\?=", line)]
    # RFC 2047, section 2.
    assert max(map(len, words)) <= 75
    assert max(map(len, lines)) <= 76


def recipients(read: Message) -> list[str]:
    return [address for _, address in getaddresses([read["To"]])]


def decoded(value: str) -> str:
    return str(make_header(decode_header(value)))


@pytest.mark.parametrize(
    "name",
    [
        f'Anna "Ann" Novak, of the Sales Department of the Customer, {EVE}, Prague',
        f"Anna \\ Novak, of the Sales Department of the Customer, {EVE}, Prague branch",
        '"Anna Novak" of Sales, Marketing and Procurement, Prague, and of Brno and Ostrava, too',
        f'x" {EVE}, "' + "y" * 450,
        "é" * 300 + f'" {EVE}, ',
        f"=?utf-8?q?=22_=3Ceve=40evil.example=3E=2C?= {EVE}",
        "Dr. Anna",
        "",
    ],
)
def test_a_display_name_adds_no_recipient(name: str) -> None:
    read = written(name, subject=name)
    assert recipients(read) == TO
    assert [decoded(one) for one, _ in getaddresses([read["To"]])] == [name, ""]
    assert getaddresses([read["From"]])[0][1] == "owner@acme.example"
    assert decoded(read["Subject"]) == name


def test_random_display_names_add_and_hide_no_recipient() -> None:
    random = Random(18)
    for _ in range(300):
        name, subject = (
            "".join(random.choice(PIECES) for _ in range(random.choice((3, 20, 80, 200))))
            for _ in range(2)
        )
        assert recipients(written(name, subject=subject)) == TO, name


@pytest.mark.parametrize(
    ("domain", "ascii_domain"),
    [
        ("straße.de", "xn--strae-oqa.de"),
        ("Straße.de", "xn--strae-oqa.de"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("βόλος.com", "xn--nxasmm1c.com"),
        ("strasse.de", "strasse.de"),
    ],
)
def test_a_domain_is_written_by_the_present_standard(domain: str, ascii_domain: str) -> None:
    """By the standard of 2003, "straße.de" was another way to write "strasse.de"."""
    assert recipients(written("Anna", domain=domain))[0] == f"anna@{ascii_domain}"


@pytest.mark.parametrize("domain", ["a\u200db.com", "b..bücher.de", "❤ü.example."])
def test_a_domain_that_cannot_be_written_is_refused(domain: str) -> None:
    with pytest.raises(OutboundInvalid, match="is not a mail address"):
        written("Anna", domain=domain)
