"""Quota units: what each method costs, and the refusal when a minute's units are used up.

Off until ordered. Kept in the simulator's file, so that all processes use up the same units.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from http import HTTPStatus

from mail.gmail.simulator.answer import ApiError
from mail.gmail.simulator.store import Store

_EVERYBODY = ""
_UNITS = {
    "getProfile": 1,
    "history.list": 2,
    "labels.list": 1,
    "labels.get": 1,
    "messages.delete": 10,
    "messages.batchModify": 50,
    "messages.batchDelete": 50,
    "messages.send": 100,
    "messages.import": 25,
    "messages.insert": 25,
    "threads.get": 10,
    "threads.list": 10,
    "threads.modify": 10,
    "threads.trash": 10,
    "threads.untrash": 10,
    "threads.delete": 20,
    "drafts.create": 10,
    "drafts.update": 15,
    "drafts.delete": 10,
    "drafts.send": 100,
    "watch": 100,
    "stop": 50,
}
_DEFAULT_UNITS = 5


@dataclass(frozen=True, slots=True)
class Quota:
    """The units of one user and of the whole project in each window of `seconds`."""

    user_units: int = 15_000
    project_units: int = 1_200_000
    seconds: float = 60.0
    status: int = HTTPStatus.TOO_MANY_REQUESTS
    """429, or 403, whose reason tells the user's quota from the project's."""


def units_of(method: str) -> int:
    """Return what one request to the method costs."""
    return _UNITS.get(method, _DEFAULT_UNITS)


def order(store: Store, quota: Quota | None) -> None:
    """Count units from now on; None stops counting."""
    with store.write() as connection:
        connection.execute("DELETE FROM quota")
        connection.execute("DELETE FROM quota_use")
        if quota is not None:
            connection.execute(
                "INSERT INTO quota VALUES (?, ?, ?, ?)",
                (quota.user_units, quota.project_units, quota.seconds, int(quota.status)),
            )


def spend(store: Store, address: str, method: str) -> None:
    """Use up the units of a request.

    Raises:
        ApiError: 429 or 403, the units of the user or of the project are used up for now.
    """
    with store.read() as connection:
        row = connection.execute("SELECT * FROM quota").fetchone()
    if row is None:
        return
    quota, units, now = Quota(*row), units_of(method), time.time()
    window = math.floor(now / quota.seconds)
    with store.write() as connection:
        connection.execute("DELETE FROM quota_use WHERE window < ?", (window,))
        used = dict(connection.execute("SELECT address, units FROM quota_use").fetchall())
        wait = math.ceil((window + 1) * quota.seconds - now)
        for who, limit, reason in (
            (address, quota.user_units, "userRateLimitExceeded"),
            (_EVERYBODY, quota.project_units, "rateLimitExceeded"),
        ):
            if used.get(who, 0) + units > limit:
                message = "Quota exceeded: units per minute."
                if quota.status == HTTPStatus.TOO_MANY_REQUESTS:
                    reason = "rateLimitExceeded"  # noqa: PLW2901 - Gmail's 429 knows no other
                raise ApiError(quota.status, reason, message, retry_after=max(wait, 1))
        for who in (address, _EVERYBODY):
            connection.execute(
                "INSERT INTO quota_use VALUES (?, ?, ?)"
                " ON CONFLICT (address) DO UPDATE SET units = units + excluded.units",
                (who, window, units),
            )
