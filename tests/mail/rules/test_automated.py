"""Mail from machines is known by its headers and its sender."""

from __future__ import annotations

import pytest

from mail.rules.automated import AutomatedKind, automated_signal
from mail.text.addresses import parse_sender
from mail.text.parsed import Address, Headers

pytestmark = pytest.mark.req("M-09")

PERSON = Address("Ann", "ann@x.example")


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("Auto-Submitted", "auto-replied", AutomatedKind.AUTO_SUBMITTED),
        ("auto-submitted", "Auto-Generated; x=y", AutomatedKind.AUTO_SUBMITTED),
        ("Precedence", "BULK", AutomatedKind.BULK),
        ("Precedence", "list", AutomatedKind.MAILING_LIST),
        ("Precedence", "auto_reply", AutomatedKind.AUTO_RESPONSE),
        ("Precedence", "junk", AutomatedKind.BULK),
        ("List-Id", "<news.x.example>", AutomatedKind.MAILING_LIST),
        ("LIST-UNSUBSCRIBE", "<mailto:u@x.example>", AutomatedKind.MAILING_LIST),
        ("X-Auto-Response-Suppress", "All", AutomatedKind.BULK),
        ("Feedback-ID", "1:2:3", AutomatedKind.BULK),
        ("X-Autoreply", "yes", AutomatedKind.AUTO_RESPONSE),
        ("X-Autorespond", "", AutomatedKind.AUTO_RESPONSE),
        ("Return-Path", "<>", AutomatedKind.NULL_RETURN_PATH),
        ("Return-Path", " < > ", AutomatedKind.NULL_RETURN_PATH),
        ("Content-Type", 'multipart/report; boundary="x"', AutomatedKind.DELIVERY_REPORT),
        ("X-Failed-Recipients", "bob@x.example", AutomatedKind.DELIVERY_REPORT),
        ("List-Post", "<mailto:l@x.example>", AutomatedKind.MAILING_LIST),
        ("X-Mailing-List", "<l@x.example>", AutomatedKind.MAILING_LIST),
        ("X-BeenThere", "l@x.example", AutomatedKind.MAILING_LIST),
        ("Sender", "owner-l@x.example", AutomatedKind.MAILING_LIST),
        ("Sender", "List <l-request@x.example>", AutomatedKind.MAILING_LIST),
        ("Return-Path", "<l-bounces+ann=y.example@x.example>", AutomatedKind.MAILING_LIST),
        ("Sender", "Words <words@LISTSERV.x.example>", AutomatedKind.MAILING_LIST),
        ("Sender", "Words <words@lists.x.example>", AutomatedKind.MAILING_LIST),
        ("Return-Path", "<109.8@bounced.x.example>", AutomatedKind.MAILING_LIST),
        ("Return-Path", "<news-bounce-571-2c9c@x.example>", AutomatedKind.MAILING_LIST),
        ("Return-Path", "<x@a.bounce.x.example>", AutomatedKind.MAILING_LIST),
        ("Return-Path", "<bounces+17-ann=y.example@x.example>", AutomatedKind.MAILING_LIST),
        ("Errors-To", "errors@x.example", AutomatedKind.MAILING_LIST),
    ],
)
def test_each_header_gives_a_machine_away(name, value, kind):
    signal = automated_signal(PERSON, Headers(((name, value),)))
    assert signal is not None
    assert signal.kind is kind
    assert signal.header.lower() == name.lower()


@pytest.mark.parametrize(
    "address",
    ["noreply@x.example", "No-Reply@x.example", "no_reply@x.example", "do-not-reply@x.example",
     "donotreply+17@x.example", "MAILER-DAEMON@x.example", "postmaster@x.example",
     "notifications@x.example", "notification@x.example", "bounces-1@x.example", "a@bounce.x.example",
     "alerts@x.example", "notify+7@x.example", "mailinglist@x.example", "owner-news@x.example",
     "news-f485fcce40b794d5@x.example", "words@lists.x.example", "list@x.example"],
)  # fmt: skip
def test_each_robot_address_gives_a_machine_away(address):
    signal = automated_signal(Address("", address), Headers())
    assert signal is not None
    assert signal.kind is AutomatedKind.ROBOT_SENDER


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Auto-Submitted", "no"),
        ("Auto-Submitted", "No (a person)"),
        ("Precedence", "first-class"),
        ("Return-Path", "<ann@x.example>"),
        ("Content-Type", "multipart/mixed"),
        ("Subject", "List-Id: <fake>"),
        ("Sender", "Ann <ann@x.example>"),
        ("Return-Path", "<homeowner-bob@x.example>"),
        ("Return-Path", "<prvs=1234567890=ann@x.example>"),
        ("Return-Path", "<SRS0=ab12=CD=y.example=ann@x.example>"),
        ("Return-Path", "<ann@bouncers.example>"),
    ],
)
def test_a_person_is_not_taken_for_a_machine(name, value):
    assert automated_signal(PERSON, Headers(((name, value),))) is None


@pytest.mark.parametrize(
    "address",
    ["anna.list@x.example", "norman.mailer@x.example", "list.anna@x.example", "ann+alerts@x.example",
     "editor@list.co.uk", "jan.00420603123456@x.example", "quote-request@x.example",
     "ann@list.ru", "ann@lists.example", "alerto@x.example", "ann.liste@x.example", "calist@x.example",
     "10293847561029@x.example", "ann-1984@x.example", "subscribers.ann@x.example"],
)  # fmt: skip
def test_a_persons_address_is_not_taken_for_a_machines(address):
    assert automated_signal(Address("", address), Headers()) is None


@pytest.mark.parametrize(
    "written",
    ["MAILER-DAEMON <>", "MAILER-DAEMON", "<>", "Mail Delivery Subsystem <>",
     "Mail Delivery System <someone@x.example>", '"Postmaster" <pm@x.example>'],
)  # fmt: skip
def test_a_mail_server_is_known_by_its_name_or_by_having_no_address(written):
    signal = automated_signal(parse_sender((written,)), Headers())
    assert signal is not None
    assert (signal.kind, signal.header) == (AutomatedKind.ROBOT_SENDER, "From")


def test_a_sender_who_cannot_be_read_is_not_taken_for_a_machine():
    assert automated_signal(parse_sender(("Ann at x",)), Headers()) is None


def test_the_text_of_the_name_does_not_count():
    assert automated_signal(Address("no-reply@x.example", "ann@x.example"), Headers()) is None
