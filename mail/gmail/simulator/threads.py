"""threads.*: conversations as a whole."""

from __future__ import annotations

from mail.gmail.simulator.call import Call, Handler, Json, page_token
from mail.gmail.simulator.ids import message_id
from mail.gmail.simulator.labels import read_change
from mail.gmail.simulator.mailbox import Mailbox, StoredMessage
from mail.gmail.simulator.messages import describe, reference, trash, untrash
from mail.gmail.simulator.search_sql import matching


def _list(mailbox: Mailbox, call: Call) -> Json:
    where, values = matching(mailbox, call.query)
    page_size = call.page_size
    rows = mailbox.connection.execute(
        "SELECT m.thread, max(m.internal_date) AS newest FROM message m"  # noqa: S608 - marks
        f" WHERE {where} GROUP BY m.thread"
        " HAVING (max(m.internal_date), m.thread) < (?, ?)"
        " ORDER BY newest DESC, m.thread DESC LIMIT ?",
        (*values, *call.page_position(2), page_size + 1),
    ).fetchall()
    page = rows[:page_size]
    answer: Json = {"resultSizeEstimate": len(rows)}
    if page:
        answer["threads"] = [_summary(mailbox, message_id(row["thread"])) for row in page]
    if len(rows) > page_size:
        answer["nextPageToken"] = page_token((page[-1]["newest"], page[-1]["thread"]))
    return answer


def _summary(mailbox: Mailbox, wire_id: str) -> Json:
    messages = mailbox.thread_messages(wire_id)
    return {
        "id": wire_id,
        "snippet": messages[-1].snippet,
        "historyId": str(max(message.history_id for message in messages)),
    }


def _get(mailbox: Mailbox, call: Call) -> Json:
    messages = mailbox.thread_messages(call.path["id"])
    message_format = call.query.get("format", "full")
    only_headers = call.query.get("metadataHeaders", ())
    return {
        "id": call.path["id"],
        "historyId": str(max(message.history_id for message in messages)),
        "messages": [
            describe(mailbox, message, message_format, only_headers) for message in messages
        ],
    }


def _modify(mailbox: Mailbox, call: Call) -> Json:
    add, remove = read_change(mailbox, call.body)
    # A draft has no label but DRAFT, so only the thread's other messages are changed.
    return _after(
        call,
        [
            message
            if "DRAFT" in message.label_ids
            else mailbox.change_labels(message, add=add, remove=remove)
            for message in mailbox.thread_messages(call.path["id"])
        ],
    )


def _trash(mailbox: Mailbox, call: Call) -> Json:
    messages = mailbox.thread_messages(call.path["id"])
    return _after(call, [trash(mailbox, message) for message in messages])


def _untrash(mailbox: Mailbox, call: Call) -> Json:
    messages = mailbox.thread_messages(call.path["id"])
    return _after(call, [untrash(mailbox, message) for message in messages])


def _after(call: Call, messages: list[StoredMessage]) -> Json:
    return {"id": call.path["id"], "messages": [reference(message) for message in messages]}


def _delete(mailbox: Mailbox, call: Call) -> None:
    for message in mailbox.thread_messages(call.path["id"]):
        mailbox.delete_message(message)


READERS: dict[str, Handler] = {"threads.list": _list, "threads.get": _get}
WRITERS: dict[str, Handler] = {
    "threads.modify": _modify,
    "threads.trash": _trash,
    "threads.untrash": _untrash,
    "threads.delete": _delete,
}
