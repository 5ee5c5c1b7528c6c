"""messages.* except send, import and insert: read, search, label, trash, delete."""

from __future__ import annotations

import base64
import re
import secrets
import time
from collections.abc import Collection, Iterable
from typing import Any

from mail.gmail.simulator.answer import invalid_argument, not_found
from mail.gmail.simulator.call import Call, Handler, Json, page_token
from mail.gmail.simulator.ids import message_id, message_pk
from mail.gmail.simulator.labels import read_change
from mail.gmail.simulator.mailbox import Mailbox, StoredMessage
from mail.gmail.simulator.mime import Part, parse
from mail.gmail.simulator.search_sql import matching

_MAX_BATCH = 1000
_ESTIMATE_LIMIT = 201


def describe(
    mailbox: Mailbox,
    message: StoredMessage,
    message_format: str = "full",
    only_headers: Iterable[str] = (),
) -> Json:
    """Return the Message resource in format minimal, metadata, full or raw."""
    answer = reference(message) | {
        "snippet": message.snippet,
        "historyId": str(message.history_id),
        "internalDate": str(message.internal_date),
        "sizeEstimate": message.size,
    }
    if message_format == "raw":
        answer["raw"] = base64.urlsafe_b64encode(mailbox.raw(message)).decode()
    elif message_format == "metadata":
        answer["payload"] = header_part(parse(mailbox.raw(message)), tuple(only_headers))
    elif message_format == "full":
        answer["payload"] = message_part(parse(mailbox.raw(message)))
    return answer


def reference(message: StoredMessage) -> Json:
    """Return what a write answers with: ids and labels."""
    answer: Json = {"id": message_id(message.pk), "threadId": message_id(message.thread)}
    if message.label_ids:
        answer["labelIds"] = list(message.label_ids)
    return answer


def trash(mailbox: Mailbox, message: StoredMessage) -> StoredMessage:
    """Move a message to the trash, out of the inbox."""
    return mailbox.change_labels(message, add=["TRASH"], remove=["INBOX"])


def untrash(mailbox: Mailbox, message: StoredMessage) -> StoredMessage:
    """Take a message out of the trash; it does not come back to the inbox by itself."""
    return mailbox.change_labels(message, remove=["TRASH"])


def _list(mailbox: Mailbox, call: Call) -> Json:
    where, values = matching(mailbox, call.query)
    page_size = call.page_size
    # Each page continues below the last row, not at an offset, so that new mail shifts no page.
    rows = mailbox.connection.execute(
        "SELECT m.pk, m.thread, m.internal_date FROM message m"  # noqa: S608 - built with marks
        f" WHERE {where} AND (m.internal_date, m.pk) < (?, ?)"
        " ORDER BY m.internal_date DESC, m.pk DESC LIMIT ?",
        (*values, *call.page_position(2), page_size + 1),
    ).fetchall()
    estimate = mailbox.connection.execute(
        f"SELECT count(*) FROM (SELECT 1 FROM message m WHERE {where} LIMIT {_ESTIMATE_LIMIT})",  # noqa: S608
        values,
    ).fetchone()[0]
    answer: Json = {"resultSizeEstimate": estimate}
    page = rows[:page_size]
    if page:
        answer["messages"] = [
            {"id": message_id(row["pk"]), "threadId": message_id(row["thread"])} for row in page
        ]
    if len(rows) > page_size:
        answer["nextPageToken"] = page_token((page[-1]["internal_date"], page[-1]["pk"]))
    return answer


def _get(mailbox: Mailbox, call: Call) -> Json:
    return describe(
        mailbox,
        mailbox.message(call.path["id"]),
        call.query.get("format", "full"),
        call.query.get("metadataHeaders", ()),
    )


def _modify(mailbox: Mailbox, call: Call) -> Json:
    add, remove = read_change(mailbox, call.body)
    message = mailbox.message(call.path["id"])
    _refuse_drafts([message])
    return reference(mailbox.change_labels(message, add=add, remove=remove))


def _batch_modify(mailbox: Mailbox, call: Call) -> None:
    add, remove = read_change(mailbox, call.body)
    messages = _known(mailbox, call.body.get("ids", []))
    _refuse_drafts(messages)
    for message in messages:
        mailbox.change_labels(message, add=add, remove=remove)


def _batch_delete(mailbox: Mailbox, call: Call) -> None:
    for message in _known(mailbox, call.body.get("ids", [])):
        mailbox.delete_message(message)


def _known(mailbox: Mailbox, wire_ids: list[str]) -> list[StoredMessage]:
    """Return the messages that exist, because Gmail's batch methods ignore unknown ids."""
    if not wire_ids:
        raise invalid_argument("No message ids specified")
    if len(wire_ids) > _MAX_BATCH:
        raise invalid_argument("Too many message ids: at most 1000")
    return [
        mailbox.message(wire_id)
        for wire_id in dict.fromkeys(wire_ids)
        if mailbox.connection.execute(
            "SELECT 1 FROM message WHERE pk = ? AND mailbox = ?", (message_pk(wire_id), mailbox.pk)
        ).fetchone()
    ]


def _refuse_drafts(messages: Iterable[StoredMessage]) -> None:
    if any("DRAFT" in message.label_ids for message in messages):
        raise invalid_argument("Labels of a draft message cannot be changed")


def _trash(mailbox: Mailbox, call: Call) -> Json:
    return reference(trash(mailbox, mailbox.message(call.path["id"])))


def _untrash(mailbox: Mailbox, call: Call) -> Json:
    return reference(untrash(mailbox, mailbox.message(call.path["id"])))


def _delete(mailbox: Mailbox, call: Call) -> None:
    mailbox.delete_message(mailbox.message(call.path["id"]))


def _attachment(mailbox: Mailbox, call: Call) -> Json:
    message = mailbox.message(call.path["messageId"])
    part = find_attachment(parse(mailbox.raw(message)), call.path["id"])
    if part is None:
        raise not_found()
    return {"size": len(part.content), "data": base64.urlsafe_b64encode(part.content).decode()}


READERS: dict[str, Handler] = {
    "messages.list": _list,
    "messages.get": _get,
    "messages.attachments.get": _attachment,
}
WRITERS: dict[str, Handler] = {
    "messages.modify": _modify,
    "messages.batchModify": _batch_modify,
    "messages.batchDelete": _batch_delete,
    "messages.trash": _trash,
    "messages.untrash": _untrash,
    "messages.delete": _delete,
}


_INLINE_LIMIT_BYTES = 1024 * 1024
# As at Gmail, an attachment id is another one at each reading, and expires.
ATTACHMENT_SECONDS = 3600
_ATTACHMENT_ID = re.compile(r"ANGjdJ_([0-9-]{0,200})_(\d{1,12})_[A-Za-z0-9]{16}")


def message_part(part: Part) -> dict[str, Any]:
    """Return the part and everything below it as a MessagePart of format "full".

    Text without a file name travels inline up to 1 MiB; all else is fetched by attachmentId.
    """
    body: dict[str, Any] = {"size": len(part.content)}
    if _is_inline(part):
        if part.content:
            text = part.in_utf_8()
            body = {"size": len(text), "data": base64.urlsafe_b64encode(text).decode()}
    elif part.content:
        body["attachmentId"] = attachment_id(part)
    answer: dict[str, Any] = {
        "partId": part.part_id,
        "mimeType": part.mime_type,
        "filename": part.filename,
        "headers": _headers(part),
        "body": body,
    }
    if part.children:
        answer["parts"] = [message_part(child) for child in part.children]
    return answer


def header_part(part: Part, only: Collection[str]) -> dict[str, Any]:
    """Return the MessagePart of format "metadata": only headers, all of them if none are named."""
    wanted = {name.lower() for name in only}
    headers = [
        header for header in _headers(part) if not wanted or header["name"].lower() in wanted
    ]
    return {"mimeType": part.mime_type, "headers": headers}


def attachment_id(part: Part) -> str:
    """Return a new opaque id under which the part's bytes are fetched for a time."""
    place = part.part_id.replace(".", "-")
    return f"ANGjdJ_{place}_{int(time.time())}_{secrets.token_hex(8)}"


def find_attachment(root: Part, wanted: str) -> Part | None:
    """Return the part behind an attachment id of this message, None when it gave no such id.

    Raises:
        ApiError: 400, the id has expired.
    """
    known = _ATTACHMENT_ID.fullmatch(wanted)
    if known is None:
        return None
    if time.time() - int(known[2]) > ATTACHMENT_SECONDS:
        raise invalid_argument("Invalid attachment token")
    place = known[1].replace("-", ".")
    return next((one for one in root.walk() if one.content and one.part_id == place), None)


def _is_inline(part: Part) -> bool:
    return (
        part.mime_type.startswith("text/")
        and not part.is_attachment
        and len(part.content) <= _INLINE_LIMIT_BYTES
    )


def _headers(part: Part) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in part.headers]
