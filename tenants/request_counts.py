"""How often somebody asks: counted in one statement each, so exactly, whoever asks at once."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import connection

from tenants.models import RequestCount

FORGOTTEN_AFTER_MINUTES = 60
FORGOTTEN_AT_ONCE = 100

# Seconds since 1970 by the database's clock: the web processes' own may differ.
_NOW = {
    "postgresql": "floor(extract(epoch FROM clock_timestamp()))::bigint",
    "sqlite": "CAST(strftime('%%s', 'now') AS integer)",
}
# Of two who ask at the turn of a minute, the later may be written first: the earlier then counts
# with it. After a greater step back of the clock, counting begins anew.
_COUNT = """
INSERT INTO {table} AS kept (caller, minute, asked) VALUES (%s, {now} / 60, 1)
ON CONFLICT (caller) DO UPDATE SET
    asked = CASE WHEN kept.minute - excluded.minute IN (0, 1) THEN kept.asked + 1 ELSE 1 END,
    minute = CASE WHEN kept.minute - excluded.minute IN (0, 1)
        THEN kept.minute ELSE excluded.minute END
RETURNING asked, (minute + 1) * 60 - {now}
"""
_GIVE_BACK = "UPDATE {table} SET asked = asked - 1 WHERE caller = %s"
_FORGET = """
DELETE FROM {table} WHERE caller IN (
    SELECT caller FROM {table} WHERE minute < {now} / 60 - %s LIMIT %s {lock}
)
"""


@dataclass(frozen=True)
class Count:
    """How often somebody asked in this minute, and how long it still lasts."""

    asked: int
    seconds_left: int


def count_request(caller: str) -> Count:
    """Count one request of the caller, and return how many there were in this minute."""
    with connection.cursor() as cursor:
        cursor.execute(_sql(_COUNT), [caller])
        asked, seconds_left = cursor.fetchone()
        if asked == 1:
            # Addresses come and go: every first request of a minute sweeps a few that are gone.
            cursor.execute(_sql(_FORGET), [FORGOTTEN_AFTER_MINUTES, FORGOTTEN_AT_ONCE])
    return Count(asked, max(seconds_left, 1))


def give_back(caller: str) -> None:
    """Take back one request that was counted: it is none of those that are bounded."""
    with connection.cursor() as cursor:
        cursor.execute(_sql(_GIVE_BACK), [caller])


def _sql(text: str) -> str:
    lock = "FOR UPDATE SKIP LOCKED" if connection.features.has_select_for_update else ""
    now = _NOW[connection.vendor]
    return text.format(table=RequestCount._meta.db_table, now=now, lock=lock)
