"""Serves Gmail and Google's OAuth over HTTP, and answers the consent page without a browser."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlencode, urlsplit

import httplib2

from mail.gmail.simulator.api import GmailSimulator
from mail.gmail.simulator.server import SimulatorServer

if TYPE_CHECKING:
    from mail.gmail.oauth import Grant

MODIFY = "https://www.googleapis.com/auth/gmail.modify"
REDIRECT_URI = "http://testserver/oauth/gmail/callback/"


@contextmanager
def serving(simulator: GmailSimulator) -> Iterator[SimulatorServer]:
    """Serve the simulator over HTTP."""
    with SimulatorServer(simulator) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def answer_consent(url: str, address: str, scopes: Sequence[str] = (MODIFY,)) -> dict[str, str]:
    """Allow the scopes on the consent page; return the parameters of the redirect back."""
    form = {"account": address, "answer": "allow", **dict.fromkeys(scopes, "on")}
    http = httplib2.Http(timeout=10)
    http.follow_redirects = False
    response, _ = http.request(url, "POST", body=urlencode(form))
    assert response.status == 302
    return {
        name: values[0] for name, values in parse_qs(urlsplit(response["location"]).query).items()
    }


def granted(address: str, scopes: Sequence[str] = (MODIFY,)) -> Grant:
    """Ask for consent, allow it, and return the grant."""
    from mail.conf import oauth_client
    from mail.gmail.oauth import exchange_code, request_consent

    consent = request_consent(oauth_client(), REDIRECT_URI, sorted({MODIFY, *scopes}))
    back = answer_consent(consent.url, address, scopes)
    assert back["state"] == consent.state
    return exchange_code(oauth_client(), REDIRECT_URI, back["code"], consent.code_verifier)
