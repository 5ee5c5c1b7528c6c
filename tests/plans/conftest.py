"""What the planner knows does not change in the middle of a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import connection


@pytest.fixture
def no_autovacuum(transactional_db: None) -> Iterator[None]:
    """Keep autovacuum from the table of jobs: it would read its pages, and count its rows anew."""
    if connection.vendor != "postgresql":
        yield
        return
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE jobs_jobqueue SET (autovacuum_enabled = false)")
    yield
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE jobs_jobqueue RESET (autovacuum_enabled)")
