"""Where LISTEN connects to: PostgreSQL itself, past any pooler."""

from __future__ import annotations

from django.db import connection
from psycopg import pq
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from jobs.conf import listen_database_url

# How a connection notices that nobody answers: the main database's own way holds everywhere.
PATIENCE = ("connect_timeout", "tcp_user_timeout", "keepalives_idle", "keepalives_interval")


def listen_conninfo() -> str:
    """Return the address for LISTEN: LISTEN_DATABASE_URL, or the main database."""
    url = listen_database_url()
    if not url:
        return main_conninfo()
    params = connection.get_connection_params()
    patience = {name: params[name] for name in PATIENCE if name in params}
    return make_conninfo(**{**patience, **conninfo_to_dict(url)})


def main_conninfo() -> str:
    """Return the address of the main database, with all that DATABASE_URL says of connections."""
    names = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    params = connection.get_connection_params()
    return make_conninfo(**{name: params[name] for name in names & params.keys() if params[name]})
