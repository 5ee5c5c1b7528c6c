"""Access to the test's server as its superuser, if the server allows that."""

from __future__ import annotations

from urllib.parse import urlsplit

import psycopg
import pytest

from tests.queue_kit import table_rows
from tests.support.databases import database_url


def superuser_url() -> str:
    """Return the URL of the test's database for a superuser; skip the test if that is refused."""
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
