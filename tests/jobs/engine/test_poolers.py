"""A pooler that gives each session to any client is told from one that keeps it for a client."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from jobs.engine import poolers
from tests.support.databases import postgresql_only, unpooled_only
from tests.support.pgbouncer import PROGRAM, pgbouncer
from tests.support.proxy import proxied

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.req("W-04"),
    postgresql_only,
    unpooled_only,
    pytest.mark.skipif(PROGRAM is None, reason="PgBouncer is not installed"),
]


@pytest.mark.parametrize(("mode", "changes"), [("transaction", True), ("session", False)])
def test_others_that_give_a_session_back_in_between_do_not_hide_it(
    monkeypatch: pytest.MonkeyPatch, mode: str, changes: bool
) -> None:
    """From the COMMIT on, the pooler gives the second client that session, the first its own."""
    looked: list[int] = []
    look = poolers._server_process

    with (
        proxied() as proxy,
        pgbouncer(proxy, mode) as (_, url),
        poolers.connect(url) as other,
    ):

        def look_and_let_others_end(client: psycopg.Connection[Any]) -> int:
            looked.append(look(client))
            if len(looked) == 1:
                other.execute("COMMIT")
            return looked[-1]

        other.execute("BEGIN")
        monkeypatch.setattr(poolers, "_server_process", look_and_let_others_end)
        assert poolers.changes_sessions(url) is changes
    # The first look did not tell: the second client had another session than the first.
    assert len(set(looked)) == 2
