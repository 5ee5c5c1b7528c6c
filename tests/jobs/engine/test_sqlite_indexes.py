"""The indexes that statements name have the same condition as the statements."""

from __future__ import annotations

import pytest
from django.db import connection

from jobs.engine.dialects.sqlite_indexes import NAMED, spell_conditions
from jobs.queue import enqueue
from jobs.testing import drain
from tenants.models import Firm
from tests.support.databases import sqlite_only

pytestmark = [pytest.mark.django_db, pytest.mark.req("A-01"), sqlite_only]


def indexes() -> dict[str, str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index'")
        return {name: sql for name, sql in cursor.fetchall() if name in NAMED}


def test_conditions_as_django_6_1_writes_them_are_spelled_anew(firm: Firm) -> None:
    before = indexes()
    assert before.keys() == set(NAMED)
    with connection.cursor() as cursor:
        for name, sql in before.items():
            columns, word, condition = sql.rpartition(" WHERE ")
            for flag in ("ready", "admitted", "waiting"):
                condition = condition.replace(f'"{flag}"', f'"{flag}" = 1')
            cursor.execute(f"DROP INDEX {name}")
            cursor.execute(columns + word + condition)
    assert all(" = 1" in sql for sql in indexes().values())
    spell_conditions("default")
    assert indexes() == before
    enqueue("noop", firm=firm)
    assert drain().counts == {"completed": 1}
