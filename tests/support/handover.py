"""Measures how long a freed lock key waits for its next job, by trigger and the database's clock."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import connection

CREATE = {
    "postgresql": (
        """CREATE TABLE test_handover (id bigserial PRIMARY KEY, lock_key text, freed boolean,
            at double precision)""",
        """CREATE FUNCTION test_note_handover() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN
                INSERT INTO test_handover (lock_key, freed, at)
                VALUES (NEW.lock_key, NEW.status <> 'claimed', extract(epoch FROM clock_timestamp()));
                RETURN NULL;
            END $$""",
        """CREATE TRIGGER test_handover_note AFTER UPDATE ON jobs_jobqueue FOR EACH ROW
            WHEN (NEW.lock_key IS NOT NULL AND OLD.status <> NEW.status
                AND NEW.status <> 'processing')
            EXECUTE FUNCTION test_note_handover()""",
    ),
    "sqlite": (
        """CREATE TABLE test_handover (id integer PRIMARY KEY, lock_key text, freed boolean,
            at real)""",
        """CREATE TRIGGER test_handover_note AFTER UPDATE ON jobs_jobqueue
            WHEN NEW.lock_key IS NOT NULL AND OLD.status <> NEW.status
                AND NEW.status <> 'processing'
            BEGIN
                INSERT INTO test_handover (lock_key, freed, at) VALUES
                    (NEW.lock_key, NEW.status <> 'claimed',
                     (julianday('now') - 2440587.5) * 86400.0);
            END""",
    ),
}
DROP = {
    "postgresql": (
        "DROP TRIGGER IF EXISTS test_handover_note ON jobs_jobqueue",
        "DROP FUNCTION IF EXISTS test_note_handover",
        "DROP TABLE IF EXISTS test_handover",
    ),
    "sqlite": (
        "DROP TRIGGER IF EXISTS test_handover_note",
        "DROP TABLE IF EXISTS test_handover",
    ),
}


@contextmanager
def recorded_handovers() -> Iterator[None]:
    """Record inside the block every claim of a keyed job, and every end of its hold."""
    _execute(DROP)
    _execute(CREATE)
    try:
        yield
    finally:
        _execute(DROP)


def waits() -> list[float]:
    """Return, for each time a key was freed and taken again, the seconds in between, sorted."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT lock_key, freed, at FROM test_handover ORDER BY lock_key, at, id")
        notes = cursor.fetchall()
    found: list[float] = []
    freed_at: dict[str, float] = {}
    for lock_key, freed, at in notes:
        if freed:
            freed_at[lock_key] = at
        elif lock_key in freed_at:
            found.append(at - freed_at.pop(lock_key))
    return sorted(found)


def _execute(statements: dict[str, tuple[str, ...]]) -> None:
    with connection.cursor() as cursor:
        for statement in statements[connection.vendor]:
            cursor.execute(statement)
