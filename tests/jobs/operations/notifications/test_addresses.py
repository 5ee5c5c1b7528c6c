"""Which URLs a webhook may have, and which addresses are public."""

from __future__ import annotations

import pytest

from jobs.operations.notifications.addresses import (
    AddressRefused,
    WebhookURL,
    is_public,
    parse_url,
)

pytestmark = pytest.mark.req("U-04")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("https://a.example", ("https", "a.example", 443, "/")),
        ("http://A.Example:8080/x?y=z", ("http", "a.example", 8080, "/x?y=z")),
        ("https://[2001:db8::1]:444/", ("https", "2001:db8::1", 444, "/")),
        ("https://93.184.216.34/x", ("https", "93.184.216.34", 443, "/x")),
    ],
)
def test_urls_are_taken_apart(text: str, parts: tuple[str, str, int, str]) -> None:
    assert parse_url(text) == WebhookURL(*parts)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a.example/x",
        "ftp://a.example/",
        "file:///etc/passwd",
        "https://",
        "https:///x",
        "https://user:pass@a.example/",
        "https://a.example@b.example/",
        "https://a.example:99999/",
        "https://a.example:x/",
        "https://a example/",
        "https://a..example/",
        "https://.a.example/",
        f"https://{'a' * 64}.example/",
        "https://a.example/\r\nX: y",
        "https://m\u00fcller.example/",
        "https://[::1/",
        "https://a.example/" + "x" * 500,
    ],
)
def test_what_is_no_plain_url_is_refused(text: str) -> None:
    with pytest.raises(AddressRefused):
        parse_url(text)


@pytest.mark.parametrize("text", ["93.184.216.34", "2606:2800:220:1::1", "::ffff:93.184.216.34"])
def test_public_addresses(text: str) -> None:
    assert is_public(text)


@pytest.mark.parametrize(
    "text",
    [
        "0.0.0.0",
        "10.1.2.3",
        "100.64.0.1",
        "127.0.0.1",
        "169.254.169.254",
        "168.63.129.16",
        "172.16.0.1",
        "192.0.0.192",
        "192.168.1.1",
        "192.0.2.1",
        "198.18.0.1",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::ffff:127.0.0.1",
        "::127.0.0.1",
        "::ffff:169.254.169.254",
        "::ffff:192.0.0.192",
        "::ffff:0:127.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::1",
        "2002:7f00:1::",
        "2001:0:4136:e378:8000:63bf:80ff:fffe",
        "5f00::1",
        "fc00::1",
        "fec0::1",
        "fe80::1%eth0",
        "ff02::1",
        "not an address",
    ],
)
def test_private_addresses_and_those_that_hide_one(text: str) -> None:
    assert not is_public(text)
