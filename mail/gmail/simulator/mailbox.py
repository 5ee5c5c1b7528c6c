"""One mailbox inside one transaction: every write to messages, their labels and the history."""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Literal

from mail.gmail.simulator.answer import not_found
from mail.gmail.simulator.ids import message_pk
from mail.gmail.simulator.letter import Letter
from mail.gmail.simulator.push import publish

HistoryKind = Literal["messageAdded", "messageDeleted", "labelAdded", "labelRemoved"]

_FIRST_HISTORY_ID = 1000
_MESSAGE_COLUMNS = "pk, thread, internal_date, history_id, snippet, length(raw) AS size"


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message row without its bytes."""

    pk: int
    thread: int
    internal_date: int
    """Milliseconds since 1970."""
    history_id: int
    snippet: str
    size: int
    label_ids: tuple[str, ...]


class Mailbox:
    """The rows of one address; valid for as long as the transaction it was opened in."""

    def __init__(self, connection: sqlite3.Connection, pk: int, address: str) -> None:
        self.connection = connection
        self.pk = pk
        self.address = address

    @classmethod
    def open(cls, connection: sqlite3.Connection, address: str) -> Mailbox | None:
        """Return the mailbox of an address (any case), or None when there is none."""
        row = connection.execute(
            "SELECT pk, address FROM mailbox WHERE address = ?", (address.lower(),)
        ).fetchone()
        return None if row is None else cls(connection, row["pk"], row["address"])

    @classmethod
    def ensure(cls, connection: sqlite3.Connection, address: str) -> Mailbox:
        """Return the mailbox of an address, creating an empty one if there is none."""
        connection.execute(
            "INSERT OR IGNORE INTO mailbox (address, access_token, history_id, history_floor)"
            " VALUES (?, ?, ?, ?)",
            (address.lower(), secrets.token_urlsafe(24), _FIRST_HISTORY_ID, _FIRST_HISTORY_ID),
        )
        mailbox = cls.open(connection, address)
        assert mailbox is not None  # noqa: S101 - inserted above, in the same transaction
        return mailbox

    # History

    @property
    def history_id(self) -> int:
        """Return the id of the newest change."""
        return self._number("history_id")

    @property
    def history_floor(self) -> int:
        """Return the oldest id from which history can still be listed."""
        return self._number("history_floor")

    def _number(self, column: str) -> int:
        row = self.connection.execute(
            f"SELECT {column} FROM mailbox WHERE pk = ?",  # noqa: S608 - a name of ours
            (self.pk,),
        ).fetchone()
        value: int = row[0]
        return value

    def _next_history_id(self) -> int:
        # Gmail's history ids have gaps, so a client that expects consecutive ids must fail here,
        # too.
        row = self.connection.execute(
            "UPDATE mailbox SET history_id = history_id + 3 + (history_id * 7) % 11"
            " WHERE pk = ? RETURNING history_id",
            (self.pk,),
        ).fetchone()
        value: int = row[0]
        return value

    def expire_history(self) -> None:
        """Delete all history so far, so that the history ids handed out until now answer 404."""
        floor = self._next_history_id()
        self.connection.execute(
            "UPDATE mailbox SET history_floor = ? WHERE pk = ?", (floor, self.pk)
        )
        self.connection.execute(
            "DELETE FROM history WHERE mailbox = ? AND id <= ?", (self.pk, floor)
        )

    def _record(
        self,
        message: StoredMessage,
        kinds: Collection[tuple[HistoryKind, Collection[str]]],
    ) -> None:
        history_id = self._next_history_id()
        label_ids = json.dumps(message.label_ids)
        self.connection.executemany(
            "INSERT INTO history VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                (
                    self.pk,
                    history_id,
                    kind,
                    message.pk,
                    message.thread,
                    label_ids,
                    json.dumps(sorted(changed)),
                )
                for kind, changed in kinds
            ],
        )
        self.connection.execute(
            "UPDATE message SET history_id = ? WHERE pk = ?", (history_id, message.pk)
        )
        labels = {*message.label_ids, *(label for _, changed in kinds for label in changed)}
        publish(self.connection, self.pk, self.address, history_id, labels)

    # Reading

    def message(self, wire_id: str) -> StoredMessage:
        """Return one message.

        Raises:
            ApiError: 404, the mailbox has no such message.
        """
        row = self.connection.execute(
            f"SELECT {_MESSAGE_COLUMNS} FROM message WHERE pk = ? AND mailbox = ?",  # noqa: S608
            (message_pk(wire_id), self.pk),
        ).fetchone()
        if row is None:
            raise not_found()
        return self._stored(row)

    def thread_messages(self, wire_id: str) -> list[StoredMessage]:
        """Return the messages of a thread, oldest first.

        Raises:
            ApiError: 404, the mailbox has no such thread.
        """
        rows = self.connection.execute(
            f"SELECT {_MESSAGE_COLUMNS} FROM message WHERE thread = ? AND mailbox = ?"  # noqa: S608
            " ORDER BY internal_date, pk",
            (message_pk(wire_id), self.pk),
        ).fetchall()
        if not rows:
            raise not_found()
        return [self._stored(row) for row in rows]

    def raw(self, message: StoredMessage) -> bytes:
        """Return the bytes of a message as they came in."""
        row = self.connection.execute(
            "SELECT raw FROM message WHERE pk = ?", (message.pk,)
        ).fetchone()
        raw: bytes = row[0]
        return raw

    def _stored(self, row: sqlite3.Row) -> StoredMessage:
        labels = self.connection.execute(
            "SELECT label FROM message_label WHERE message = ? ORDER BY label", (row["pk"],)
        ).fetchall()
        return StoredMessage(**dict(row), label_ids=tuple(label["label"] for label in labels))

    # Writing

    def add_message(
        self,
        raw: bytes,
        letter: Letter,
        label_ids: Collection[str],
        *,
        internal_date: datetime | None = None,
        thread: int | None = None,
        import_digest: bytes | None = None,
    ) -> StoredMessage:
        """Store a message and its messageAdded record.

        ``internal_date`` defaults to now; ``thread`` to a thread of its own.
        """
        moment = internal_date or datetime.now(UTC)
        row = self.connection.execute(
            "INSERT INTO message (mailbox, thread, internal_date, history_id, rfc822_id,"
            " has_attachment, snippet, import_digest, raw)"
            " VALUES (?, 0, ?, 0, ?, ?, ?, ?, ?) RETURNING pk",
            (
                self.pk,
                int(moment.timestamp() * 1000),
                letter.rfc822_id,
                letter.has_attachment,
                letter.snippet,
                import_digest,
                raw,
            ),
        ).fetchone()
        pk: int = row["pk"]
        thread = thread or pk
        self.connection.execute("UPDATE message SET thread = ? WHERE pk = ?", (thread, pk))
        self.connection.execute(
            "INSERT INTO message_text (rowid, subject, sender, recipients, body)"
            " VALUES (?, ?, ?, ?, ?)",
            (pk, letter.subject, letter.sender, letter.recipients, letter.body),
        )
        self.connection.executemany(
            "INSERT INTO message_label VALUES (?, ?)", [(pk, label) for label in set(label_ids)]
        )
        self._link(letter, thread)
        row = self.connection.execute(
            f"SELECT {_MESSAGE_COLUMNS} FROM message WHERE pk = ?",  # noqa: S608
            (pk,),
        ).fetchone()
        message = self._stored(row)
        self._record(message, [("messageAdded", ())])
        return message

    def _link(self, letter: Letter, thread: int) -> None:
        self.connection.executemany(
            "INSERT OR IGNORE INTO thread_link VALUES (?, ?, ?, ?)",
            [(self.pk, known, letter.thread_subject, thread) for known in letter.thread_ids],
        )

    def find_thread(self, letter: Letter, *, within: int | None = None) -> int | None:
        """Return the thread a letter belongs to by its references and subject.

        The letter may refer to the thread's messages, or they to the letter. ``within`` limits the
        search to one thread.
        """
        row = self.connection.execute(
            "SELECT max(thread) FROM thread_link WHERE mailbox = :mailbox AND subject = :subject"
            " AND rfc822_id IN (SELECT value FROM json_each(:known))"
            " AND (:within IS NULL OR thread = :within)",
            {
                "mailbox": self.pk,
                "subject": letter.thread_subject,
                "known": json.dumps(sorted(letter.thread_ids)),
                "within": within,
            },
        ).fetchone()
        thread: int | None = row[0]
        return thread

    def change_labels(
        self, message: StoredMessage, *, add: Collection[str] = (), remove: Collection[str] = ()
    ) -> StoredMessage:
        """Add and remove labels; a call that changes nothing leaves no history record."""
        before = frozenset(message.label_ids)
        added, removed = frozenset(add) - before, before & frozenset(remove)
        if not added and not removed:
            return message
        self.connection.executemany(
            "INSERT INTO message_label VALUES (?, ?)", [(message.pk, label) for label in added]
        )
        self.connection.executemany(
            "DELETE FROM message_label WHERE message = ? AND label = ?",
            [(message.pk, label) for label in removed],
        )
        changed = replace(message, label_ids=tuple(sorted((before | added) - removed)))
        kinds: list[tuple[HistoryKind, Collection[str]]] = []
        if added:
            kinds.append(("labelAdded", added))
        if removed:
            kinds.append(("labelRemoved", removed))
        self._record(changed, kinds)
        return changed

    def delete_message(self, message: StoredMessage) -> None:
        """Delete a message for good, and the draft that it belongs to."""
        self._record(message, [("messageDeleted", ())])
        self.connection.execute("DELETE FROM message_text WHERE rowid = ?", (message.pk,))
        self.connection.execute("DELETE FROM message WHERE pk = ?", (message.pk,))
        self.connection.execute(
            "DELETE FROM thread_link WHERE thread = :thread"
            " AND NOT EXISTS (SELECT 1 FROM message WHERE thread = :thread)",
            {"thread": message.thread},
        )
