"""Faults ordered for coming requests; kept in the simulator's file, so every process meets them."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from mail.gmail.simulator.answer import ApiError
from mail.gmail.simulator.store import Store

# The search delay is stored in the table of faults, under a name that no method has.
SEARCH_DELAY = "search-delay"

_DEFAULT_REASONS = {
    400: "failedPrecondition",
    401: "authError",
    403: "forbidden",
    404: "notFound",
    429: "rateLimitExceeded",
}


class AnswerLost(Exception):
    """No answer came back, whether or not the request took effect."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What happens instead of an ordinary answer."""

    status: int = 503
    reason: str = ""
    """Empty means Gmail's usual reason for this status."""
    message: str = "Fault injected by the simulator"
    retry_after: int | None = None
    """Seconds in the Retry-After header; None sends no header."""
    loses_answer: bool = False
    """The request takes effect, then the connection times out; the status is not used."""
    loses_request: bool = False
    """The connection times out before the request has an effect; the status is not used."""

    def error(self) -> ApiError:
        """Return the error the client is answered with."""
        reason = self.reason or _DEFAULT_REASONS.get(self.status, "backendError")
        return ApiError(self.status, reason, self.message, retry_after=self.retry_after)


LOST_ANSWER = Fault(loses_answer=True)
LOST_REQUEST = Fault(loses_request=True)
# How the column loses_answer stores these two.
_LOSES_ANSWER, _LOSES_REQUEST = 1, 2


def order(
    store: Store, fault: Fault, *, method: str = "*", address: str | None = None, times: int = 1
) -> None:
    """Make the next ``times`` requests fail, oldest order first.

    ``method`` is a name such as ``messages.get``, or ``*``; ``address`` None is every mailbox.
    """
    with store.write() as connection:
        connection.execute(
            "INSERT INTO fault (address, method, remaining, loses_answer, status, reason,"
            " message, retry_after) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (
                address and address.lower(),
                method,
                times,
                _LOSES_REQUEST if fault.loses_request else int(fault.loses_answer),
                fault.status,
                fault.reason,
                fault.message,
                fault.retry_after,
            ),
        )


def delay_search(store: Store, seconds: int, *, address: str | None = None) -> None:
    """Let searches find a message only when it is this old; `address` None is every mailbox."""
    order(store, Fault(status=0, retry_after=seconds), method=SEARCH_DELAY, address=address)


def search_delay_ms(connection: sqlite3.Connection, address: str) -> int:
    """Return how many milliseconds searches in this mailbox lag behind."""
    row = connection.execute(
        "SELECT retry_after FROM fault WHERE method = ? AND (address IS NULL OR address = ?)"
        " ORDER BY pk DESC LIMIT 1",
        (SEARCH_DELAY, address),
    ).fetchone()
    return 0 if row is None else int(row["retry_after"]) * 1000


def clear(store: Store) -> None:
    """Delete all faults that were ordered, and the delay of searches."""
    with store.write() as connection:
        connection.execute("DELETE FROM fault")


_DUE = (
    "SELECT pk, loses_answer, status, reason, message, retry_after FROM fault"
    " WHERE remaining > 0 AND (address IS NULL OR address = ?) AND method IN ('*', ?)"
    " ORDER BY pk LIMIT 1"
)


def take(store: Store, address: str, method: str) -> Fault | None:
    """Return the fault ordered for this request and count it as used; None if there is none."""
    with store.read() as connection:
        if connection.execute(_DUE, (address, method)).fetchone() is None:
            return None
    with store.write() as connection:
        row = connection.execute(_DUE, (address, method)).fetchone()
        if row is None:
            return None
        connection.execute("UPDATE fault SET remaining = remaining - 1 WHERE pk = ?", (row["pk"],))
    return Fault(
        status=row["status"],
        reason=row["reason"],
        message=row["message"],
        retry_after=row["retry_after"],
        loses_answer=row["loses_answer"] == _LOSES_ANSWER,
        loses_request=row["loses_answer"] == _LOSES_REQUEST,
    )
