"""Times are read whatever DateStyle the server or the role sets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from django.db import connection

from tests.queue_kit import row, table_rows, take_one
from tests.support.databases import postgresql_only, unpooled_only

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.req("W-02"),
    postgresql_only,
    unpooled_only,
]


@pytest.mark.parametrize("style", ["German", "SQL, MDY", "Postgres, YMD"])
def test_a_job_is_enqueued_claimed_and_shown(add: Callable[..., Any], style: str) -> None:
    with patch.dict(
        connection.settings_dict["OPTIONS"], options=f"-c DateStyle={style.replace(' ', '')}"
    ):
        connection.close()
        try:
            job_id = add()
            assert take_one().job_id == job_id
            assert row(job_id).claimed_at is not None
            # The setting changes only how times are written, not the order of day and month in
            # input.
            ((now,),) = table_rows("SELECT current_setting('datestyle')")
            assert now.startswith("ISO")
        finally:
            connection.close()
