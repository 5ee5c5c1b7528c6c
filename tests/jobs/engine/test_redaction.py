"""What never reaches an error text, and which values are masked in JSON."""

from __future__ import annotations

import time

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction
from hypothesis import given
from hypothesis import strategies as st

from interfaces import redaction
from interfaces.redaction import REDACTED_TEXT, hide_secrets, is_secret_key, redact
from jobs.engine.redaction import REDACTED_VALUE, redact_secrets
from jobs.payload_validator import SECRET_KEYS
from tests.support.databases import postgresql_only

pytestmark = pytest.mark.req("J-13")

# A value that contains quotes and several lines.
LETTER = 'My "plans":\n\ndivorce.\n\nAda'

# Text around a secret, and the part of it that must be gone.
SECRETS = [
    ("550 no such user ada.lovelace+queue@mail.example.org", "ada.lovelace"),
    ("(<ada@example.co.uk>)", "ada@"),
    ("login failed for password=hunter2x", "hunter2x"),
    ('{"password": "hunter2x"}', "hunter2x"),
    ("{'client_secret': 'GOCSPX-abcdef'}", "GOCSPX"),
    ("access_token=abc123&expires=3600", "abc123"),
    ("refresh_token : abc123", "abc123"),
    ("api_key=abc123", "abc123"),
    ("X-Api-Key: abc123", "abc123"),
    ("DB_PASSWORD=hunter2x", "hunter2x"),
    ("PGPASSWORD=hunter2x psql", "hunter2x"),
    ('"password": "correct horse battery"', "battery"),
    ("cookie: sessionid=abc123", "abc123"),
    ("Authorization: Bearer abcdef123456", "abcdef123456"),
    ("Authorization: Basic dXNlcjpodW50ZXIy", "dXNlcjpodW50ZXIy"),
    ("sent bearer abcdef123456 to the server", "abcdef123456"),
    ("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl here", "c2lnbmF0dXJl"),
    ("ya29.a0AfH6SMBxxxxxxxx was refused", "a0AfH6SMB"),
    ("unauthorized_client: GOCSPX-xY_1234567890abcd", "xY_1234567890"),
    ("code 1//0gabcdefghijklmnopq", "abcdefghijklmnopq"),
    ("key AIzaSyA1234567890abcdefghijklmn", "SyA1234567890"),
    ("key rk-abcdefghijklmnop1234", "abcdefghijkl"),
    ("could not connect to postgres://ada:hunter2x@db.example/app", "hunter2x"),
    ("-----BEGIN PRIVATE KEY-----\nMIIEvQIBADAN\n-----END PRIVATE KEY-----", "MIIEvQIBADAN"),
    (
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\nMIIEvQIBADAN\n-----END RSA PRIVATE KEY-----",
        "MIIEvQIBADAN",
    ),
    ("-----BEGIN PRIVATE KEY-----\nMIIEvQIBADAN and no end", "MIIEvQIBADAN"),
    ("DETAIL:  Failing row contains (1, (the) divorce.\nof, null", "divorce"),
]


@postgresql_only
@pytest.mark.django_db
def test_a_row_that_postgresql_refuses_is_not_quoted() -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE letters (id int, subject text, sent date NOT NULL)")
        with pytest.raises(IntegrityError) as refused, transaction.atomic():
            cursor.execute("INSERT INTO letters VALUES (1, %s)", ["the (long)\ndivorce"])
    assert "divorce" in str(refused.value)
    assert redact(f"{refused.value}\nnext line", 2_000) == (
        'null value in column "sent" of relation "letters" violates not-null constraint\n'
        "DETAIL:  Failing row contains [redacted]\nnext line"
    )


@postgresql_only
@pytest.mark.django_db
@pytest.mark.parametrize(
    ("statement", "value"),
    [
        ("INSERT INTO letters VALUES (%s)", '{"subject": "divorce \\u0000"}'),
        ("INSERT INTO letters VALUES (%s)", '{"subject": divorce}'),
        ("INSERT INTO letters VALUES (%s)", '{"subject": "my" "divorce"}'),
        ("INSERT INTO subjects VALUES (%s)", "divorce"),
        ("INSERT INTO subjects VALUES (%s)", LETTER),
        ("SELECT %s::int", "divorce"),
        ("SELECT %s::int", LETTER),
        ("SELECT %s::int[]", LETTER),
        ("SELECT to_tsquery(%s)", LETTER),
    ],
)
def test_a_value_that_postgresql_refuses_is_not_quoted(statement: str, value: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE letters (body jsonb)")
        cursor.execute("CREATE TEMPORARY TABLE subjects (subject text PRIMARY KEY)")
        cursor.execute("INSERT INTO subjects VALUES ('divorce'), (%s)", [LETTER])
        with pytest.raises(DatabaseError) as refused, transaction.atomic():
            cursor.execute(statement, [value])
    assert "divorce" in str(refused.value)
    shown = redact(f"{refused.value}\nnext line", 2_000)
    assert "divorce" not in shown
    assert shown.endswith("\nnext line")


def test_a_value_that_postgresql_quotes_ends_where_something_else_begins() -> None:
    error = 'invalid input syntax for type integer: "divorce" in step 3'
    traceback = 'Traceback (most recent call last):\n  File "app.py", line 3'
    shown = redact(f"{error}\n{traceback}", 2_000)
    assert shown == f"invalid input syntax for type integer: {REDACTED_TEXT}\n{traceback}"


@postgresql_only
@pytest.mark.django_db
def test_the_place_of_a_mistake_in_a_statement_is_shown() -> None:
    with (
        connection.cursor() as cursor,
        pytest.raises(DatabaseError) as refused,
        transaction.atomic(),
    ):
        cursor.execute("SELECT nobody FROM letters_that_are_not")
    assert "LINE 1: SELECT nobody FROM letters_that_are_not" in redact(str(refused.value), 2_000)


def test_in_what_a_person_wrote_the_addresses_stay() -> None:
    text = "ada@acme.example sent DB_PASSWORD=hunter2x; see https://ada:pw1@host.example"
    shown = "ada@acme.example sent DB_[redacted]; see https://[redacted]@host.example"
    assert hide_secrets(text) == shown


@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_secrets_and_addresses_are_taken_out(text: str, secret: str):
    redacted = redact(text, 2_000)
    assert secret not in redacted
    assert REDACTED_TEXT in redacted


SECRET_NAMES = [
    *sorted(SECRET_KEYS),
    "api_token",
    "bot_token",
    "apiToken",
    "API-Token",
    "release_token",
    "async_token",
    "db_password",
    "PGPASSWORD",
    "aws_secret",
    "X-Api-Key",
    "signing_private_key",
    "privateKey",
    "Set-Cookie",
    "proxy-authorization",
    "page_token_secret",
]
HARMLESS_NAMES = [
    "page_token",
    "next_page_token",
    "nextPageToken",
    "pageToken",
    "sync_token",
    "nextSyncToken",
    "NEXT_TOKEN",
    "lease_token",
    "fencing_token",
    "max_tokens",
    "prompt_tokens",
    "token_count",
    "tokens",
    "password_changed_at",
    "secretary",
    "cookies",
]


@pytest.mark.req("T-05")
@pytest.mark.parametrize("name", SECRET_NAMES)
def test_a_name_that_ends_as_a_secrets_does_hides_its_value(name: str):
    for spelled in (name, name.upper()):
        shown = redact_secrets({"a": [{spelled: {"value": "hunter2x"}, "name": "b"}]})
        assert shown == {"a": [{spelled: REDACTED_VALUE, "name": "b"}]}
        assert "hunter2x" not in redact(f"refused: {spelled}=hunter2x", 2_000)


@pytest.mark.req("T-05")
@pytest.mark.parametrize("name", HARMLESS_NAMES)
def test_a_name_that_merely_looks_alike_hides_nothing(name: str):
    assert not is_secret_key(name)
    assert redact_secrets({name: "17"}) == {name: "17"}
    assert redact(f"refused: {name}=17, once", 2_000) == f"refused: {name}=17, once"


@pytest.mark.parametrize(
    "text",
    [
        "division by zero",
        "HTTP 503 from gmail.googleapis.com after 3 attempts",
        "No handler registered for job_type: sync.gmail",
        "Job timed out (stale claim)",
        "KeyError: 'tenant_id'",
    ],
)
def test_what_an_operator_needs_stays(text: str):
    assert redact(text, 2_000) == text


def test_the_limit_holds_and_the_cut_is_shown():
    assert redact("x" * 3_000, 2_000) == "x" * 1_999 + "…"
    assert redact("x" * 2_000, 2_000) == "x" * 2_000


def test_a_secret_that_straddles_the_limit_is_taken_out_whole():
    assert "hunter" not in redact("x" * 1_990 + " password=hunter2x", 2_005)


@given(st.text(), st.integers(1, 100))
def test_any_text_becomes_storable_and_short_enough(text: str, limit: int):
    redacted = redact(text, limit)
    assert "\x00" not in redacted
    redacted.encode()
    assert len(redacted) <= limit


# The characters that Python takes for an i, a k and an s where it ignores case.
LIKE_LETTERS = str.maketrans({"i": "\u0131", "I": "\u0130", "k": "\u212a", "s": "\u017f"})


@given(
    st.lists(
        st.sampled_from([text for text, _ in SECRETS]).flatmap(
            lambda text: st.sampled_from(
                [text, text.upper(), text.lower(), text.translate(LIKE_LETTERS), text[1:], "é "]
            )
        ),
        max_size=4,
    )
)
def test_a_pattern_is_left_out_only_where_it_matches_nothing(texts: list[str]) -> None:
    text = "\n".join(texts)
    every_pattern = text
    for _, pattern in redaction._PATTERNS:
        every_pattern = pattern.sub(redaction._redacted, every_pattern)

    assert redact(text, 10_000) == every_pattern


@given(st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=200))
def test_redacting_twice_changes_nothing(text: str):
    once = redact(f"to ada@example.org: {text}", 2_000)
    assert "ada@example.org" not in once
    assert redact(once, 2_000) == once


@pytest.mark.parametrize(
    "piece",
    [
        "a.",
        "a@",
        "a@b",
        "://",
        "://a:",
        "-----BEGIN A-----",
        "-",
        "password",
        "password=",
        "password = ",
        "page_token",
        "next_",
        "bearer ",
        "basic     ",
        "eyJaaaaaaaa.",
        "eyJaaaaaaaa-",
        "eyJaaaaaaaa.a",
        "sk-",
        "1//",
        "Failing row contains (",
        "\nLINE 1: ",
        "\nDETAIL:  Key (",
        "\nDETAIL:  Key (.\n",
        "\nDETAIL:  Expected but found ",
        'relation "',
        'relation "x" does not exist\nLINE 1: ',
        'time zone "x',
        'invalid value "x" for ',
        'argument "',
        'near "',
        '"1',
        "\nQUERY:  x",
        'SQL statement "',
        "portal parameter $1 = ",
        'COPY x, line 1: "',
        "operator does not exist: a",
        " input syntax for type a",
        ' input syntax for type a"\n',
        'syntax error in tsquery: "x',
        " ",
        "x",
    ],
)
def test_a_hostile_megabyte_takes_time_in_proportion(piece: str):
    def seconds(size: int) -> float:
        text = piece * (size // len(piece))
        begun = time.thread_time()
        redact(text, size)
        return time.thread_time() - begun

    small = min(seconds(62_500) for _ in range(3))
    # Sixteen times the text may take sixteen times the processor's time, with room for caches; if
    # the time were quadratic, it would be 256 times.
    large = seconds(1_000_000)
    assert large < 64 * small + 0.5
    # A search of bounded length from each place would be in proportion too, but take far too long.
    assert large < 5
