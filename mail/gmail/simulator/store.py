"""The simulator's SQLite file: its tables and its transactions.

One file holds many mailboxes and is shared by any number of processes and threads.
"""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

from mail.gmail.simulator.mime import decode_words, parse

_BUSY_SECONDS = 20.0

_SCHEMA = """
CREATE TABLE mailbox (
    pk INTEGER PRIMARY KEY,
    address TEXT NOT NULL UNIQUE,
    access_token TEXT NOT NULL UNIQUE,
    history_id INTEGER NOT NULL,
    history_floor INTEGER NOT NULL,
    labels_made INTEGER NOT NULL DEFAULT 0,
    watch TEXT
) STRICT;
-- AUTOINCREMENT: an id is never given twice, not even after a permanent deletion.
CREATE TABLE message (
    pk INTEGER PRIMARY KEY AUTOINCREMENT,
    mailbox INTEGER NOT NULL REFERENCES mailbox (pk),
    thread INTEGER NOT NULL,
    internal_date INTEGER NOT NULL,
    history_id INTEGER NOT NULL,
    rfc822_id TEXT NOT NULL,
    has_attachment INTEGER NOT NULL,
    snippet TEXT NOT NULL,
    import_digest BLOB,
    raw BLOB NOT NULL
) STRICT;
CREATE INDEX message_newest ON message (mailbox, internal_date, pk);
CREATE INDEX message_thread ON message (thread);
CREATE INDEX message_rfc822 ON message (mailbox, rfc822_id);
CREATE UNIQUE INDEX message_imported ON message (mailbox, import_digest)
    WHERE import_digest IS NOT NULL;
CREATE VIRTUAL TABLE message_text USING fts5 (
    subject, sender, recipients, body, tokenize = "unicode61 remove_diacritics 2"
);
CREATE TABLE message_label (
    message INTEGER NOT NULL REFERENCES message (pk) ON DELETE CASCADE,
    label TEXT NOT NULL,
    PRIMARY KEY (message, label)
) STRICT, WITHOUT ROWID;
CREATE INDEX message_label_label ON message_label (label, message);
CREATE TABLE thread_link (
    mailbox INTEGER NOT NULL,
    rfc822_id TEXT NOT NULL,
    subject TEXT NOT NULL,
    thread INTEGER NOT NULL,
    PRIMARY KEY (mailbox, rfc822_id, subject, thread)
) STRICT, WITHOUT ROWID;
CREATE INDEX thread_link_thread ON thread_link (thread);
CREATE TABLE label (
    mailbox INTEGER NOT NULL REFERENCES mailbox (pk),
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    name_key TEXT NOT NULL,
    search_key TEXT NOT NULL,
    properties TEXT NOT NULL,
    PRIMARY KEY (mailbox, id),
    UNIQUE (mailbox, name_key)
) STRICT, WITHOUT ROWID;
CREATE TABLE draft (
    pk INTEGER PRIMARY KEY AUTOINCREMENT,
    mailbox INTEGER NOT NULL REFERENCES mailbox (pk),
    message INTEGER NOT NULL UNIQUE REFERENCES message (pk) ON DELETE CASCADE
) STRICT;
CREATE TABLE history (
    mailbox INTEGER NOT NULL,
    id INTEGER NOT NULL,
    kind TEXT NOT NULL,
    message INTEGER NOT NULL,
    thread INTEGER NOT NULL,
    label_ids TEXT NOT NULL,
    changed TEXT NOT NULL,
    PRIMARY KEY (mailbox, id, kind)
) STRICT, WITHOUT ROWID;
CREATE TABLE fault (
    pk INTEGER PRIMARY KEY AUTOINCREMENT,
    address TEXT,
    method TEXT NOT NULL,
    remaining INTEGER NOT NULL,
    loses_answer INTEGER NOT NULL,
    status INTEGER NOT NULL,
    reason TEXT NOT NULL,
    message TEXT NOT NULL,
    retry_after INTEGER
) STRICT;
"""

# What version 2 adds.
_SCHEMA_2 = """
CREATE TABLE oauth_grant (
    pk INTEGER PRIMARY KEY AUTOINCREMENT,
    mailbox INTEGER NOT NULL REFERENCES mailbox (pk),
    client_id TEXT NOT NULL,
    scopes TEXT NOT NULL,
    code TEXT UNIQUE,
    code_expires REAL NOT NULL,
    redirect_uri TEXT NOT NULL,
    challenge TEXT NOT NULL,
    refresh_token TEXT UNIQUE,
    revoked INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE TABLE oauth_access (
    token TEXT PRIMARY KEY,
    grant_pk INTEGER NOT NULL REFERENCES oauth_grant (pk),
    expires REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE send_as (
    mailbox INTEGER NOT NULL REFERENCES mailbox (pk),
    address TEXT NOT NULL,
    verification TEXT NOT NULL,
    PRIMARY KEY (mailbox, address)
) STRICT, WITHOUT ROWID;
"""
# What version 3 adds: Pub/Sub.
_SCHEMA_3 = """
CREATE TABLE signing_key (
    key_id TEXT PRIMARY KEY,
    private_key TEXT NOT NULL,
    certificate TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE subscription (
    topic TEXT PRIMARY KEY,
    endpoint TEXT NOT NULL,
    audience TEXT NOT NULL,
    service_account TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE notification (
    pk INTEGER PRIMARY KEY AUTOINCREMENT,
    topic TEXT NOT NULL,
    address TEXT NOT NULL,
    history_id INTEGER NOT NULL,
    acknowledged INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX notification_waiting ON notification (topic, pk) WHERE acknowledged = 0;
"""
# What version 4 adds: quota.
_SCHEMA_4 = """
CREATE TABLE quota (
    user_units INTEGER NOT NULL,
    project_units INTEGER NOT NULL,
    seconds REAL NOT NULL,
    status INTEGER NOT NULL
) STRICT;
CREATE TABLE quota_use (
    address TEXT PRIMARY KEY,
    window INTEGER NOT NULL,
    units INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
"""
_SCHEMAS = (_SCHEMA, _SCHEMA_2, _SCHEMA_3, _SCHEMA_4)
_SCHEMA_VERSION = len(_SCHEMAS)
_WORD = re.compile(r"\w+")


class Store:
    """Connections to one simulator file; safe to share between threads and across fork."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._local = threading.local()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._create_tables()

    @contextlib.contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Open one consistent view of the file."""
        with self._transaction("BEGIN DEFERRED") as connection:
            yield connection

    @contextlib.contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """Open a transaction that holds the file's write lock from its start.

        Raises:
            sqlite3.OperationalError: another process kept the lock for 20 seconds.
        """
        with self._transaction("BEGIN IMMEDIATE") as connection:
            yield connection

    @contextlib.contextmanager
    def _transaction(self, begin: str) -> Iterator[sqlite3.Connection]:
        connection = self._connection()
        connection.execute(begin)
        try:
            yield connection
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        connection.execute("COMMIT")

    def _connection(self) -> sqlite3.Connection:
        # A connection must not be used across a fork, nor even closed there: the child opens its
        # own and keeps the parent's untouched.
        if not hasattr(self._local, "by_process"):
            self._local.by_process = {}
        by_process: dict[int, sqlite3.Connection] = self._local.by_process
        if os.getpid() not in by_process:
            by_process[os.getpid()] = self._connect()
        return by_process[os.getpid()]

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None)
        connection.row_factory = sqlite3.Row
        add_functions(connection)
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    def _create_tables(self) -> None:
        connection = self._connection()
        connection.execute("PRAGMA journal_mode = WAL")
        if _version(connection) == _SCHEMA_VERSION:
            return
        with self.write():
            for schema in _SCHEMAS[_version(connection) :]:
                for statement in schema.split(";\n"):
                    connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {_SCHEMA_VERSION}")


def _version(connection: sqlite3.Connection) -> int:
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return version


def add_functions(connection: sqlite3.Connection) -> None:
    """Let queries call `header_has(raw, name, words)` and `file_has(raw, words)`."""
    connection.create_function("header_has", 3, _header_has, deterministic=True)
    connection.create_function("file_has", 2, _file_has, deterministic=True)


def _header_has(raw: bytes, name: str, wanted: str) -> bool:
    root = parse(raw)
    return any(_contains(decode_words(value), wanted) for value in root.all_headers(name))


def _file_has(raw: bytes, wanted: str) -> bool:
    return any(_contains(part.filename, wanted) for part in parse(raw).walk() if part.filename)


def _contains(text: str, wanted: str) -> bool:
    """Say whether the text contains the words, one after the other."""
    return f" {_words(wanted)} " in f" {_words(text)} "


def _words(text: str) -> str:
    return " ".join(_WORD.findall(text.casefold()))
