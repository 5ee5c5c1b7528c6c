"""Google's certificates, fetched when needed and kept for as long as Google says."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Callable, Mapping

import httplib2

from mail.gmail.errors import TRANSLATED, GmailError, GmailUnavailable, translate

GOOGLE_CERTIFICATES = "https://www.googleapis.com/oauth2/v1/certs"
TIMEOUT_SECONDS = 10
# An unknown key id leads to a new fetch at most this often, because anybody can make one up.
REFETCH_SECONDS = 60.0
# After a failure nothing is fetched for this time: each attempt may take as long as the timeout,
# and anybody could make every thread of the process wait for one.
PAUSE_SECONDS = 10.0
DEFAULT_MAX_AGE_SECONDS = 300.0

Fetch = Callable[[str], tuple[Mapping[str, str], float]]
"""Returns the certificates at an address by key id, and for how many seconds they are good."""


def fetch_certificates(address: str) -> tuple[Mapping[str, str], float]:
    """Fetch the certificates over HTTP.

    Raises:
        GmailUnavailable: there was no proper answer.
    """
    try:
        response, content = httplib2.Http(timeout=TIMEOUT_SECONDS).request(address)
    except TRANSLATED as error:
        raise translate(error) from None
    try:
        found = json.loads(content) if response.status == 200 else None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise GmailUnavailable(status=response.status, reason="certificates")
    lifetime = re.search(r"max-age=(\d{1,9})", response.get("cache-control", ""))
    seconds = float(lifetime[1]) if lifetime else DEFAULT_MAX_AGE_SECONDS
    return {str(key_id): str(certificate) for key_id, certificate in found.items()}, seconds


class FetchedCertificates:
    """The certificates at one address; safe to share between threads."""

    def __init__(
        self,
        address: str = GOOGLE_CERTIFICATES,
        *,
        fetch: Fetch = fetch_certificates,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._address = address
        self._fetch = fetch
        self._clock = clock
        self._lock = threading.Lock()
        self._known: Mapping[str, str] = {}
        self._good_until = self._fetched_at = self._failed_at = float("-inf")

    def find(self, key_id: str) -> str | None:
        """Return the certificate of this id; fetch all again if it is unknown or they have expired.

        Raises:
            GmailUnavailable: Google did not answer, now or just before.
        """
        found = self._known.get(key_id)
        # Without the lock, which a fetch may hold for long.
        if found is not None and self._clock() < self._good_until:
            return found
        with self._lock:
            now = self._clock()
            unknown = key_id not in self._known and now >= self._fetched_at + REFETCH_SECONDS
            if unknown or now >= self._good_until:
                self._fetch_anew(now)
            return self._known.get(key_id)

    def _fetch_anew(self, now: float) -> None:
        if now < self._failed_at + PAUSE_SECONDS:
            raise GmailUnavailable(reason="certificates")
        try:
            self._known, seconds = self._fetch(self._address)
        except GmailError:
            self._failed_at = self._clock()
            raise
        self._fetched_at = now
        self._good_until = now + seconds
