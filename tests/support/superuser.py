"""The way into the test's server as its superuser, where it lets one in."""

from __future__ import annotations

from urllib.parse import urlsplit

import psycopg
import pytest

from tests.queue_kit import table_rows
from tests.support.databases import database_url


def superuser_url() -> str:
    """Return the address of the test's database with a superuser's name; skip where that is refused."""
    ((superuser,),) = table_rows(
        "SELECT rolname FROM pg_roles WHERE rolsuper AND rolcanlogin LIMIT 1"
    )
    address = urlsplit(database_url())
    place = address.netloc.rpartition("@")[2]
    own = address._replace(netloc=f"{superuser}@{place}").geturl()
    try:
        psycopg.connect(own).close()
    except psycopg.OperationalError:
        pytest.skip("this server lets no superuser in without a password")
    return own
