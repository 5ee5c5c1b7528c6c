"""Whether Gmail answers a client's requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mail.gmail.errors import REFRESH_IN_PROGRESS, TRANSLATED, UNANSWERED, GmailError, translate


class Exchange:
    """What is known of one client's requests and their answers."""

    def __init__(self) -> None:
        self.is_answered: bool | None = None
        """Whether the last request was answered in time; None before the first."""
        self.is_waiting = False
        """Whether a request is under way."""

    @contextmanager
    def request(self) -> Iterator[None]:
        """Record how a request ends, and turn the libraries' exceptions into a GmailError."""
        self.is_waiting = True
        try:
            yield
        except TRANSLATED as error:
            translated = translate(error)
            self.is_answered = translated.reason != UNANSWERED
            # With the original as cause, the traceback would quote the request's URL and Google's
            # text.
            raise translated from None
        except GmailError as error:
            # Raised while renewing the access token. If another thread or process renews it, this
            # one does not learn whether Google answers.
            if error.reason != REFRESH_IN_PROGRESS:
                self.is_answered = error.reason != UNANSWERED
            raise
        finally:
            self.is_waiting = False
        self.is_answered = True
