"""Mail from machines is known by its headers and its sender."""

from __future__ import annotations

import pytest

from mail.rules.automated import AutomatedKind, automated_signal
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
     "notifications@x.example", "notification@x.example", "bounces-1@x.example", "a@bounce.x.example"],
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
    ],
)
def test_a_person_is_not_taken_for_a_machine(name, value):
    assert automated_signal(PERSON, Headers(((name, value),))) is None


def test_the_text_of_the_name_does_not_count():
    assert automated_signal(Address("no-reply@x.example", "ann@x.example"), Headers()) is None
