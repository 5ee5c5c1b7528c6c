"""Errors of databases quote no value of a statement, and still name its tables and columns."""

from __future__ import annotations

import psycopg
import pytest
from django.db import DatabaseError, connection, transaction

from interfaces.redaction import redact
from tests.support.databases import postgresql_only

pytestmark = [pytest.mark.django_db, pytest.mark.req("J-13")]

SECRET = "divorce"
# A value that contains quotes and several lines.
LETTER = 'my "divorce"\nof Ada'
TABLES = """
    CREATE TABLE letters (body jsonb, kind int);
    CREATE TABLE parts (k text) PARTITION BY LIST (k);
    CREATE TYPE mood AS ENUM ('ok');
    CREATE TYPE pair AS (a int, b int);
    CREATE FUNCTION cast_it(t text) RETURNS int LANGUAGE plpgsql AS
        $$ BEGIN EXECUTE 'SELECT ' || quote_literal(t) || '::int'; RETURN 1; END $$;
    CREATE FUNCTION keep_it(t text) RETURNS int LANGUAGE plpgsql AS
        $$ BEGIN EXECUTE 'INSERT INTO parts VALUES (' || quote_literal(t) || ')'; RETURN 1; END $$;
    CREATE FUNCTION lose_it(t text) RETURNS int LANGUAGE plpgsql AS
        $$ BEGIN EXECUTE 'INSERT INTO nowhere VALUES (' || quote_literal(t) || ')'; RETURN 1; END $$
"""


@pytest.fixture
def tables(db: None) -> None:
    """Create what the statements use."""
    with connection.cursor() as cursor:
        cursor.execute(TABLES)


def error_of(statement: str, *values: str, server: bool = False) -> str:
    """Return what the database says; `server` has the server insert the values."""
    with connection.cursor() as cursor:
        execute = cursor.connection.execute if server else cursor.execute
        with pytest.raises((DatabaseError, psycopg.Error)) as refused, transaction.atomic():
            execute(statement, values or None)
    return str(refused.value)


@postgresql_only
@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("server", [False, True], ids=["in the statement", "as a parameter"])
@pytest.mark.parametrize(
    ("statement", "value"),
    [
        ("SELECT %s::mood", SECRET),
        ("SELECT %s::mood", LETTER),
        ("SELECT %s::pair", SECRET),
        ("SELECT %s::int4multirange", SECRET),
        ("SELECT %s::cidr", "10.0.0.1/8 divorce"),
        ("SELECT %s::interval", "999999999999999 years"),
        ("SELECT %s::bigint", "99999999999999999999"),
        ("SELECT %s::float8", "1e999"),
        ("SELECT %s::date", "9999999-01-01"),
        ("SELECT %s::timestamptz", "2026-01-01 10:00 America/Divorce"),
        ("SELECT %s::cidr", "10.9.9.9/8"),
        ("SELECT %s::macaddr", "99:99:99:99:99:999"),
        ("SELECT now() AT TIME ZONE %s", LETTER),
        ("SELECT to_date(%s, 'DD Mon YYYY')", "12 divorce 2000"),
        ("SELECT date_trunc(%s, now())", SECRET),
        ("SELECT %s::tsquery", "divorce & "),
        ("SELECT parse_ident(%s)", "divorce divorce"),
        ("SELECT encode('x', %s)", SECRET),
        ("SELECT set_config('TimeZone', %s, true)", SECRET),
        ("SELECT jsonb_set('[1]', array[%s], '1')", SECRET),
        ("SELECT jsonb_path_query(to_jsonb(%s::text), '$.double()')", LETTER),
        ("SELECT jsonb_path_query(to_jsonb(%s::text), '$.datetime()')", LETTER),
        *[
            (f"SELECT %s::reg{kind}", value)
            for kind in ("class", "type", "proc", "role", "namespace", "collation", "config")
            for value in (SECRET, '"My ""divorce"""', '"my\ndivorce"')
        ],
        ("SELECT %s::regclass", "a.b.divorce"),
        ("SELECT %s::regclass", "a.b.c.divorce"),
        ("SELECT %s::regprocedure", "divorce(int)"),
        ("SELECT %s::regoper", SECRET),
        ("SELECT has_table_privilege(%s, 'select')", SECRET),
        ("INSERT INTO parts VALUES (%s)", LETTER),
        ("SELECT cast_it(%s)", LETTER),
        ("SELECT keep_it(%s)", LETTER),
        ("SELECT lose_it(%s)", LETTER),
    ],
)
def test_no_value_is_quoted(statement: str, value: str, *, server: bool) -> None:
    said = error_of(statement, value, server=server)
    shown = redact(f"{said}\nnext line", 4_000)
    for secret in (SECRET, "Divorce", "999", "9.9.9"):
        assert secret not in shown
    assert shown.endswith("\nnext line")
    assert redact(shown, 4_000) == shown


@postgresql_only
@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize("row", ["divorce\t1\n", '"a"\tdivorce\n'])
def test_a_copied_row_is_not_quoted(row: str) -> None:
    with (
        pytest.raises(psycopg.Error, match="divorce") as refused,
        transaction.atomic(),
        connection.connection.cursor() as cursor,
        cursor.copy("COPY letters FROM STDIN") as copy,
    ):
        copy.write(row)
    shown = redact(str(refused.value), 2_000)
    assert SECRET not in shown
    assert "COPY letters, line 1, column " in shown


@postgresql_only
@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize(
    ("statement", "stays"),
    [
        ("SELECT nobody FROM nowhere", 'relation "nowhere" does not exist\nLINE 1: SELECT nobody'),
        ('SELECT 1 FROM "Nowhere"', 'relation "Nowhere" does not exist'),
        ("SELECT 1 FROM Nowhere", 'relation "nowhere" does not exist'),
        ("SELECT 'divorce', x FROM nowhere", 'relation "nowhere" does not exist'),
        ("INSERT INTO nowhere VALUES ('divorce')", 'relation "nowhere" does not exist'),
        ("SELECT lose_it('divorce')", 'relation "nowhere" does not exist'),
        ("SELECT nobody FROM letters", 'column "nobody" does not exist'),
        ("UPDATE letters SET nobody = 'divorce'", 'column "nobody" of relation "letters" does not'),
        ("SELECT 'divorce'::nothing", 'type "nothing" does not exist'),
        ("SELECT 'a' COLLATE nothing", 'collation "nothing" for encoding "UTF8" does not exist'),
        ("SELECT body + 1 FROM letters", "operator does not exist: jsonb + integer"),
        ("SELECT nothing('divorce')", "function nothing(unknown) does not exist"),
        ("SELECT 1 FRM letters", 'syntax error at or near "letters"'),
        ("SELECT (1", "syntax error at end of input"),
        ("SELECT 1 +)", 'syntax error at or near ")"'),
        ("SELECT 'divorce'::int", "invalid input syntax for type integer: [redacted]"),
        ("SELECT '99999999999'::int", "value [redacted] is out of range for type integer"),
        ("INSERT INTO parts VALUES ('divorce')", 'no partition of relation "parts" found for row'),
    ],
)
def test_names_stay(statement: str, stays: str) -> None:
    shown = redact(error_of(statement), 2_000)
    assert stays in shown
    assert SECRET not in shown
    assert redact(shown, 2_000) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('fts5: syntax error near "divorce"', "fts5: syntax error near [redacted]"),
        ("near \"'divorce'\": syntax error", "near [redacted]: syntax error"),
        ('near "FRM": syntax error', 'near "FRM": syntax error'),
        ("no such table: nowhere", "no such table: nowhere"),
        ("UNIQUE constraint failed: letters.kind", "UNIQUE constraint failed: letters.kind"),
        ('FATAL:  role "ada" does not exist', 'FATAL:  role "ada" does not exist'),
        (
            "x\nCONTEXT:  unnamed portal with parameters: $1 = 'divorce', $2 = '1'",
            "x\nCONTEXT:  unnamed portal with parameters: $1 = [redacted]",
        ),
        (
            "invalid XML content\nDETAIL:  line 1: Premature end\n<a>divorce\n   ^\nnext",
            "invalid XML content\nDETAIL:  line [redacted]",
        ),
        (
            'invalid input syntax for type public.my-type: "divorce"',
            "invalid input syntax for type public.my-type: [redacted]",
        ),
        (
            'syntax error at or near "<<<<"\nLINE 1: SELECT \'he wrote: ": syntax error then divorce\'',
            "syntax error at or near [redacted]\nLINE [redacted]",
        ),
        (
            'of relation "t" violates\nDETAIL:  Key (a)=(u" does not exist divorce) already exists.',
            'of relation "t" violates\nDETAIL:  Key [redacted]',
        ),
    ],
)
def test_messages_that_no_statement_here_brings_about(text: str, shown: str) -> None:
    assert redact(text, 2_000) == shown
