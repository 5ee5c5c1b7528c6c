"""Options of connections to PostgreSQL: when they prepare statements, when they give up."""

from __future__ import annotations

from math import ceil
from typing import Any

from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

# psycopg prepares a statement when it was used this often on a connection; until then PostgreSQL
# plans it anew each time.
PREPARED_AT_USE = 3
LONGEST_SILENCE_SECONDS = 10.0
# A silence is given up after this part of the lease, so that a worker can reconnect in time.
SILENCES_PER_LEASE = 3


def silence_options(lease_seconds: float) -> dict[str, int]:
    """Return libpq's options that end a connection whose packets are lost.

    The kernel's own limits are a quarter of an hour for sent data, two hours for an idle reader.
    """
    silence = min(LONGEST_SILENCE_SECONDS, lease_seconds / SILENCES_PER_LEASE)
    probe = ceil(silence / 2)
    return {
        "connect_timeout": max(ceil(silence), 2),
        "tcp_user_timeout": ceil(silence * 1000),
        "keepalives_idle": probe,
        "keepalives_interval": probe,
    }


def checked_name(database: dict[str, Any]) -> dict[str, Any]:
    """Return the database's settings if they name one, or a service of libpq's that does.

    Raises:
        ValueError: the settings name neither.
    """
    if not database["NAME"] and "service" not in database.get("OPTIONS", {}):
        raise ValueError("must name a database, as in postgres://user@host/name")
    return database


def listen_address(text: str) -> str:
    """Return the address that LISTEN connects to, `off`, or nothing.

    Raises:
        ValueError: the text is none of these.
    """
    address = text.strip()
    if address != "off":
        try:
            conninfo_to_dict(address)
        except ProgrammingError:
            # libpq would repeat what was given, which may be a password.
            raise ValueError("must be off, or an address: postgres://user@host/name") from None
    return address
