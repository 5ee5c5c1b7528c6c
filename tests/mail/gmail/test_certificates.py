"""Google's certificates: fetched when needed, but not for every made-up key id."""

from __future__ import annotations

import pytest

from mail.gmail.certificates import FetchedCertificates, fetch_certificates
from mail.gmail.errors import GmailUnavailable
from mail.gmail.simulator.server import SimulatorServer
from tests.mail.google_kit import serving

pytestmark = pytest.mark.req("M-05")


class Google:
    """Counts how often the certificates are fetched."""

    def __init__(self) -> None:
        self.now = 0.0
        self.asked = 0
        self.keys = {"one": "first"}

    def fetch(self, _: str) -> tuple[dict[str, str], float]:
        self.asked += 1
        return dict(self.keys), 600.0

    def certificates(self) -> FetchedCertificates:
        return FetchedCertificates("", fetch=self.fetch, clock=lambda: self.now)


def test_certificates_are_kept_for_as_long_as_google_says() -> None:
    google = Google()
    certificates = google.certificates()
    assert [certificates.find("one") for _ in range(5)] == ["first"] * 5
    assert google.asked == 1
    google.now = 601
    google.keys = {"two": "second"}
    assert (certificates.find("one"), certificates.find("two")) == (None, "second")
    assert google.asked == 2


def test_a_new_key_is_found_and_made_up_ones_do_not_bother_google() -> None:
    google = Google()
    certificates = google.certificates()
    certificates.find("one")
    google.keys["two"] = "second"
    assert [certificates.find(f"made-up-{number}") for number in range(50)] == [None] * 50
    assert google.asked == 1
    google.now = 61
    assert certificates.find("two") == "second"
    assert google.asked == 2


def test_certificates_come_over_http(simulator: object) -> None:
    with serving(simulator) as server:  # type: ignore[arg-type]  # the fixture's simulator
        assert isinstance(server, SimulatorServer)
        found, seconds = fetch_certificates(f"{server.url}/oauth2/v1/certs")
        with pytest.raises(GmailUnavailable):
            fetch_certificates(f"{server.url}/elsewhere")
    ((key_id, certificate),) = found.items()
    assert seconds == 3600
    assert certificate.startswith("-----BEGIN CERTIFICATE-----")
    assert simulator.find(key_id) == certificate  # type: ignore[attr-defined]  # as above
    with pytest.raises(GmailUnavailable):
        fetch_certificates(f"{server.url}/oauth2/v1/certs")


def test_while_google_is_away_made_up_keys_wait_for_nothing() -> None:
    google = Google()
    certificates = google.certificates()
    certificates.find("one")
    google.now = 61

    def fail(_: str) -> tuple[dict[str, str], float]:
        google.asked += 1
        google.now += 10
        raise GmailUnavailable(reason="timeout")

    certificates._fetch = fail  # type: ignore[method-assign]
    for number in range(50):
        with pytest.raises(GmailUnavailable):
            certificates.find(f"made-up-{number}")
    assert certificates.find("one") == "first"
    assert google.asked == 2
    google.now += 10
    certificates._fetch = google.fetch  # type: ignore[method-assign]
    google.keys["two"] = "second"
    assert certificates.find("two") == "second"
