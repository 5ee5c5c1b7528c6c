"""Addresses of one inbox are recognised as such, however they are spelled."""

from __future__ import annotations

import pytest

from mail.text.addresses import inbox_of


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("ann@acme.example", "ann+copy@acme.example", True),
        ("j.doe@gmail.com", "jdoe@gmail.com", True),
        ("jdoe@gmail.com", "J.Doe+x@GoogleMail.com".lower(), True),
        # Elsewhere the dots make another address, and what begins with a plus sign has no tag.
        ("j.doe@acme.example", "jdoe@acme.example", False),
        ("+ann@acme.example", "+bob@acme.example", False),
        ("ann@acme.example", "ann@gmail.com", False),
    ],
)
def test_addresses_of_one_inbox(one: str, other: str, is_same: bool) -> None:
    assert (inbox_of(one) == inbox_of(other)) is is_same
