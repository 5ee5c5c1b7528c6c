"""history.list, getProfile, watch and stop: how a client learns what has changed."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from itertools import groupby
from sqlite3 import Row

from mail.gmail.simulator.answer import invalid_argument, not_found
from mail.gmail.simulator.call import Call, Handler, Json, page_token
from mail.gmail.simulator.ids import message_id
from mail.gmail.simulator.labels import require_known
from mail.gmail.simulator.mailbox import Mailbox

_WATCH_SECONDS = 7 * 24 * 3600
_FIELDS = {
    "messageAdded": "messagesAdded",
    "messageDeleted": "messagesDeleted",
    "labelAdded": "labelsAdded",
    "labelRemoved": "labelsRemoved",
}


def _list(mailbox: Mailbox, call: Call) -> Json:
    if "startHistoryId" not in call.query:
        raise invalid_argument("Missing required parameter: startHistoryId")
    start = int(call.query["startHistoryId"])
    if not mailbox.history_floor <= start <= mailbox.history_id:
        raise not_found()
    (after,) = call.page_position(1, first=start)
    page_size = call.page_size
    records = list(_records(_rows(mailbox, call, after, page_size)))
    answer: Json = {"historyId": str(mailbox.history_id)}
    if records:
        answer["history"] = records[:page_size]
    if len(records) > page_size:
        answer["nextPageToken"] = page_token((int(records[page_size - 1]["id"]),))
    return answer


def _rows(mailbox: Mailbox, call: Call, after: int, page_size: int) -> list[Row]:
    """Return the rows of one page and of one record more, which tells if there is another page."""
    return mailbox.connection.execute(
        "WITH matching AS (SELECT * FROM history WHERE mailbox = :mailbox AND id > :after"
        " AND kind IN (SELECT value FROM json_each(:kinds))"
        " AND (:label IS NULL"
        "  OR :label IN (SELECT value FROM json_each(label_ids))"
        "  OR :label IN (SELECT value FROM json_each(changed))))"
        " SELECT * FROM matching WHERE id IN"
        " (SELECT DISTINCT id FROM matching ORDER BY id LIMIT :limit) ORDER BY id, kind",
        {
            "mailbox": mailbox.pk,
            "after": after,
            "kinds": json.dumps(call.query.get("historyTypes") or list(_FIELDS)),
            "label": call.query.get("labelId"),
            "limit": page_size + 1,
        },
    ).fetchall()


def _records(rows: Iterable[Row]) -> Iterator[Json]:
    for history_id, group in groupby(rows, key=lambda row: row["id"]):
        record: Json = {"id": str(history_id)}
        for row in group:
            ids = {"id": message_id(row["message"]), "threadId": message_id(row["thread"])}
            record["messages"] = [ids]
            change: Json = {"message": ids | {"labelIds": json.loads(row["label_ids"])}}
            if changed := json.loads(row["changed"]):
                change["labelIds"] = changed
            record[_FIELDS[row["kind"]]] = [change]
        yield record


def _profile(mailbox: Mailbox, _call: Call) -> Json:
    row = mailbox.connection.execute(
        "SELECT count(*) AS messages, count(DISTINCT thread) AS threads"
        " FROM message WHERE mailbox = ?",
        (mailbox.pk,),
    ).fetchone()
    return {
        "emailAddress": mailbox.address,
        "messagesTotal": row["messages"],
        "threadsTotal": row["threads"],
        "historyId": str(mailbox.history_id),
    }


def _watch(mailbox: Mailbox, call: Call) -> Json:
    if not call.body.get("topicName"):
        raise invalid_argument("Invalid topicName does not match projects/*/topics/*")
    require_known(mailbox, call.body.get("labelIds", []))
    _refuse_second_watch(mailbox, call.body["topicName"])
    expiration = str(int((time.time() + _WATCH_SECONDS) * 1000))
    mailbox.connection.execute(
        "UPDATE mailbox SET watch = ? WHERE pk = ?",
        (json.dumps(call.body | {"expiration": expiration}), mailbox.pk),
    )
    return {"historyId": str(mailbox.history_id), "expiration": expiration}


def _refuse_second_watch(mailbox: Mailbox, topic: str) -> None:
    """Refuse a watch for another topic while there is one, as Gmail does within a project."""
    row = mailbox.connection.execute(
        "SELECT watch FROM mailbox WHERE pk = ?", (mailbox.pk,)
    ).fetchone()
    watch = json.loads(row["watch"] or "{}")
    if watch and watch["topicName"] != topic and int(watch["expiration"]) > time.time() * 1000:
        raise invalid_argument(
            "Only one user push notification client allowed per developer"
            " (call /stop then try again)"
        )


def _stop(mailbox: Mailbox, _call: Call) -> None:
    mailbox.connection.execute("UPDATE mailbox SET watch = NULL WHERE pk = ?", (mailbox.pk,))


READERS: dict[str, Handler] = {"history.list": _list, "getProfile": _profile}
WRITERS: dict[str, Handler] = {"watch": _watch, "stop": _stop}
