"""labels.*: Gmail's system labels and the users' own."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from mail.gmail.simulator.answer import ApiError, invalid_argument, not_found
from mail.gmail.simulator.call import Call, Handler, Json
from mail.gmail.simulator.ids import message_id
from mail.gmail.simulator.mailbox import Mailbox

_UNMODIFIABLE = frozenset({"SENT", "DRAFT", "CHAT"})
SYSTEM_LABELS = (
    "CHAT",
    "SENT",
    "INBOX",
    "IMPORTANT",
    "TRASH",
    "DRAFT",
    "SPAM",
    "CATEGORY_FORUMS",
    "CATEGORY_UPDATES",
    "CATEGORY_PERSONAL",
    "CATEGORY_PROMOTIONS",
    "CATEGORY_SOCIAL",
    "STARRED",
    "UNREAD",
)
_MAX_CHANGES = 100
_EDITABLE = ("messageListVisibility", "labelListVisibility", "color")


def search_key(name: str) -> str:
    """Return the form in which ``label:`` compares names: lower case, dashes for separators."""
    return re.sub(r"[\s/&()|]", "-", name.casefold())


def find_by_search_key(mailbox: Mailbox, name: str) -> list[str]:
    """Return the ids of the labels a person means by ``label:name``."""
    key = search_key(name)
    system = [label for label in SYSTEM_LABELS if search_key(label) == key]
    rows = mailbox.connection.execute(
        "SELECT id FROM label WHERE mailbox = ? AND search_key = ?", (mailbox.pk, key)
    )
    return system + [row["id"] for row in rows]


def require_known(mailbox: Mailbox, label_ids: Iterable[str]) -> None:
    """Refuse label ids the mailbox does not have.

    Raises:
        ApiError: 400, naming the label.
    """
    for label_id in label_ids:
        if label_id not in SYSTEM_LABELS and _row(mailbox, label_id) is None:
            raise invalid_argument(f"Invalid label: {label_id}")


def read_change(mailbox: Mailbox, body: Json) -> tuple[frozenset[str], frozenset[str]]:
    """Return the labels a modify request adds and removes.

    Raises:
        ApiError: 400, nothing to do, too much to do, or a label that cannot be changed.
    """
    add, remove = body.get("addLabelIds", []), body.get("removeLabelIds", [])
    if not add and not remove:
        raise invalid_argument("No label add or removes specified")
    if len(add) > _MAX_CHANGES or len(remove) > _MAX_CHANGES:
        raise invalid_argument("Too many label ids: at most 100 can be added or removed")
    for label_id in (*add, *remove):
        if label_id in _UNMODIFIABLE:
            raise invalid_argument(f"Invalid label: {label_id}")
    require_known(mailbox, (*add, *remove))
    if common := set(add) & set(remove):
        raise invalid_argument(f"Cannot both add and remove the same label: {min(common)}")
    return frozenset(add), frozenset(remove)


def _list(mailbox: Mailbox, _call: Call) -> Json:
    rows = mailbox.connection.execute(
        "SELECT id, name, properties FROM label WHERE mailbox = ? ORDER BY name_key",
        (mailbox.pk,),
    )
    system = [_system(label_id) for label_id in SYSTEM_LABELS]
    return {"labels": system + [_user(row["id"], row["name"], row["properties"]) for row in rows]}


def _get(mailbox: Mailbox, call: Call) -> Json:
    label_id = call.path["id"]
    answer = _describe(mailbox, label_id)
    counts = mailbox.connection.execute(
        "SELECT count(*) AS messagesTotal, count(u.label) AS messagesUnread,"
        " count(DISTINCT m.thread) AS threadsTotal,"
        " count(DISTINCT iif(u.label IS NULL, NULL, m.thread)) AS threadsUnread"
        " FROM message m JOIN message_label l ON l.message = m.pk"
        " LEFT JOIN message_label u ON u.message = m.pk AND u.label = 'UNREAD'"
        " WHERE m.mailbox = ? AND l.label = ?",
        (mailbox.pk, label_id),
    ).fetchone()
    return answer | dict(counts)


def _create(mailbox: Mailbox, call: Call) -> Json:
    name = _checked_name(mailbox, call.body["name"], besides=None)
    number = mailbox.connection.execute(
        "UPDATE mailbox SET labels_made = labels_made + 1 WHERE pk = ? RETURNING labels_made",
        (mailbox.pk,),
    ).fetchone()[0]
    label_id = f"Label_{number}"
    mailbox.connection.execute(
        "INSERT INTO label VALUES (?, ?, ?, ?, ?, ?)",
        (mailbox.pk, label_id, name, name.casefold(), search_key(name), _properties(call.body)),
    )
    return _describe(mailbox, label_id)


def _patch(mailbox: Mailbox, call: Call) -> Json:
    return _change(mailbox, call.path["id"], call.body, keep_rest=True)


def _update(mailbox: Mailbox, call: Call) -> Json:
    if call.body["id"] != call.path["id"]:
        raise invalid_argument("The label id of the body is not that of the path")
    return _change(mailbox, call.path["id"], call.body, keep_rest=False)


def _change(mailbox: Mailbox, label_id: str, body: Json, *, keep_rest: bool) -> Json:
    current = _describe(mailbox, label_id)
    if current["type"] == "system":
        raise invalid_argument(f"Invalid label: {label_id}")
    name = _checked_name(mailbox, str(body.get("name", current["name"])), besides=label_id)
    properties = _properties((current | body) if keep_rest else body)
    mailbox.connection.execute(
        "UPDATE label SET name = ?, name_key = ?, search_key = ?, properties = ?"
        " WHERE mailbox = ? AND id = ?",
        (name, name.casefold(), search_key(name), properties, mailbox.pk, label_id),
    )
    return _describe(mailbox, label_id)


def _delete(mailbox: Mailbox, call: Call) -> None:
    label_id = call.path["id"]
    if _describe(mailbox, label_id)["type"] == "system":
        raise invalid_argument("Invalid delete request")
    rows = mailbox.connection.execute(
        "SELECT m.pk FROM message m JOIN message_label l ON l.message = m.pk"
        " WHERE m.mailbox = ? AND l.label = ?",
        (mailbox.pk, label_id),
    ).fetchall()
    for row in rows:
        mailbox.change_labels(mailbox.message(message_id(row["pk"])), remove=[label_id])
    mailbox.connection.execute(
        "DELETE FROM label WHERE mailbox = ? AND id = ?", (mailbox.pk, label_id)
    )


def _checked_name(mailbox: Mailbox, name: str, *, besides: str | None) -> str:
    if (
        not name.strip("/ ")
        or len(name) > 225
        or search_key(name) in map(search_key, SYSTEM_LABELS)
    ):
        raise invalid_argument("Invalid label name")
    taken = mailbox.connection.execute(
        "SELECT 1 FROM label WHERE mailbox = ? AND name_key = ? AND id IS NOT ?",
        (mailbox.pk, name.casefold(), besides),
    ).fetchone()
    if taken:
        raise ApiError(409, "aborted", "Label name exists or conflicts")
    return name


def _properties(body: Json) -> str:
    return json.dumps({field: body[field] for field in _EDITABLE if field in body})


def _row(mailbox: Mailbox, label_id: str) -> tuple[str, str] | None:
    row = mailbox.connection.execute(
        "SELECT name, properties FROM label WHERE mailbox = ? AND id = ?", (mailbox.pk, label_id)
    ).fetchone()
    return None if row is None else (row["name"], row["properties"])


def _describe(mailbox: Mailbox, label_id: str) -> Json:
    if label_id in SYSTEM_LABELS:
        return _system(label_id)
    row = _row(mailbox, label_id)
    if row is None:
        raise not_found()
    return _user(label_id, *row)


def _system(label_id: str) -> Json:
    return {"id": label_id, "name": label_id, "type": "system"}


def _user(label_id: str, name: str, properties: str) -> Json:
    return {"id": label_id, "name": name, "type": "user", **json.loads(properties)}


READERS: dict[str, Handler] = {"labels.list": _list, "labels.get": _get}
WRITERS: dict[str, Handler] = {
    "labels.create": _create,
    "labels.patch": _patch,
    "labels.update": _update,
    "labels.delete": _delete,
}
