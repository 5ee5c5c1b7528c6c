"""Only the server that received a mail says whether its From is genuine; quoted text does not."""

from __future__ import annotations

import pytest

from mail.text.authentication import is_forged
from mail.text.parsed import Address, Headers

OWNER = Address("Owner", "Owner@Acme.example")
SPF = "spf=pass (google.com: domain of {0} designates 192.0.2.1 as permitted sender) smtp.mailfrom={0}"


def forged(*results: str) -> bool:
    return is_forged(Headers(tuple(("authentication-results", one) for one in results)), OWNER)


@pytest.mark.parametrize(
    "results",
    [
        "mx.google.com; dmarc=pass (p=NONE sp=NONE dis=NONE) header.from=acme.example",
        "mx.google.com; dkim=pass header.i=@acme.example header.s=s1 header.b=Ab; spf=fail",
        "mx.google.com; dkim=pass header.d=acme.example",
        "mx.google.com;\n\t" + SPF.format("bounce@mail.acme.example"),
        "mx.google.com 1; DMARC=Pass header.from=ACME.example",
    ],
)
def test_who_is_vouched_for_by_the_receiving_server_is_genuine(results: str) -> None:
    assert not forged(results)


@pytest.mark.parametrize(
    "results",
    [
        "",
        "mx.google.com; none",
        "mx.google.com; dmarc=fail (p=NONE) header.from=acme.example; spf=softfail",
        "mx.google.com; dmarc=pass header.from=evil.example",
        "mx.google.com; dkim=pass header.i=@evil.example; " + SPF.format("a@evil.example"),
        "mx.google.com; dkim=pass header.d=notacme.example",
        "mx.google.com; dkim=pass header.d=",
        "mx.google.com; spf=pass",
        # A stranger can write these texts into the envelope.
        'mx.google.com; spf=pass smtp.mailfrom="x; dmarc=pass header.from=acme.example"@evil.example',
        'mx.google.com; spf=fail smtp.mailfrom="x; dmarc=pass header.from=acme.example',
        "mx.google.com; spf=fail (domain of ; dmarc=pass header.from=acme.example) smtp.mailfrom=a@b",
        "mx.google.com; spf=fail (a (b) ; dmarc=pass header.from=acme.example) smtp.mailfrom=a@b",
        "mx.google.com; spf=fail (a ; dmarc=pass header.from=acme.example",
    ],
)
def test_who_is_not_vouched_for_is_not(results: str) -> None:
    assert forged(results)


def test_only_the_uppermost_header_counts_and_what_came_by_no_server_is_believed() -> None:
    genuine = "mx.evil.example; dmarc=pass header.from=acme.example"
    assert forged("mx.google.com; dmarc=fail header.from=acme.example", genuine)
    assert not forged()
