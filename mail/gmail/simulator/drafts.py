"""drafts.*: a draft keeps its id while every update gives it a new message."""

from __future__ import annotations

from mail.gmail.simulator.answer import not_found
from mail.gmail.simulator.call import Call, Handler, Json, page_token
from mail.gmail.simulator.ids import draft_id, draft_pk, message_id
from mail.gmail.simulator.incoming import add_composed, raw_of, send
from mail.gmail.simulator.mailbox import Mailbox, StoredMessage
from mail.gmail.simulator.messages import describe, reference
from mail.gmail.simulator.search_sql import matching


def _create(mailbox: Mailbox, call: Call) -> Json:
    message = _compose(mailbox, call.body.get("message", {}))
    row = mailbox.connection.execute(
        "INSERT INTO draft (mailbox, message) VALUES (?, ?) RETURNING pk",
        (mailbox.pk, message.pk),
    ).fetchone()
    return {"id": draft_id(row["pk"]), "message": reference(message)}


def _compose(mailbox: Mailbox, body: Json, *, stay_in: int | None = None) -> StoredMessage:
    return add_composed(mailbox, body, raw_of(body, "message.raw"), ["DRAFT"], stay_in=stay_in)


def _get(mailbox: Mailbox, call: Call) -> Json:
    message = _message(mailbox, call.path["id"])
    return {
        "id": call.path["id"],
        "message": describe(mailbox, message, call.query.get("format", "full")),
    }


def _message(mailbox: Mailbox, wire_id: str) -> StoredMessage:
    row = mailbox.connection.execute(
        "SELECT message FROM draft WHERE pk = ? AND mailbox = ?", (draft_pk(wire_id), mailbox.pk)
    ).fetchone()
    if row is None:
        raise not_found()
    return mailbox.message(message_id(row["message"]))


def _list(mailbox: Mailbox, call: Call) -> Json:
    where, values = matching(mailbox, call.query)
    page_size = call.page_size
    rows = mailbox.connection.execute(
        "SELECT d.pk AS draft, m.pk, m.thread, m.internal_date"  # noqa: S608 - built with marks
        f" FROM message m JOIN draft d ON d.message = m.pk WHERE {where}"
        " AND (m.internal_date, m.pk) < (?, ?)"
        " ORDER BY m.internal_date DESC, m.pk DESC LIMIT ?",
        (*values, *call.page_position(2), page_size + 1),
    ).fetchall()
    page = rows[:page_size]
    answer: Json = {"resultSizeEstimate": len(rows)}
    if page:
        answer["drafts"] = [
            {
                "id": draft_id(row["draft"]),
                "message": {"id": message_id(row["pk"]), "threadId": message_id(row["thread"])},
            }
            for row in page
        ]
    if len(rows) > page_size:
        answer["nextPageToken"] = page_token((page[-1]["internal_date"], page[-1]["pk"]))
    return answer


def _update(mailbox: Mailbox, call: Call) -> Json:
    old = _message(mailbox, call.path["id"])
    new = _compose(mailbox, call.body.get("message", {}), stay_in=old.thread)
    mailbox.connection.execute("UPDATE draft SET message = ? WHERE message = ?", (new.pk, old.pk))
    mailbox.delete_message(old)
    return {"id": call.path["id"], "message": reference(new)}


def _delete(mailbox: Mailbox, call: Call) -> None:
    mailbox.delete_message(_message(mailbox, call.path["id"]))


def _send(mailbox: Mailbox, call: Call) -> Json:
    """Send the stored draft, or the message given with its id, and delete the draft."""
    draft = _message(mailbox, call.body["id"])
    given = call.body.get("message", {})
    raw = raw_of(given, "message.raw") if given.get("raw") else mailbox.raw(draft)
    sent = send(mailbox, given, raw, stay_in=draft.thread)
    mailbox.delete_message(draft)
    return reference(sent)


READERS: dict[str, Handler] = {"drafts.get": _get, "drafts.list": _list}
WRITERS: dict[str, Handler] = {
    "drafts.create": _create,
    "drafts.update": _update,
    "drafts.delete": _delete,
    "drafts.send": _send,
}
