"""A mailbox listing's filter (``q``, labelIds, includeSpamTrash) as SQL over ``message m``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from mail.gmail.simulator.answer import invalid_argument
from mail.gmail.simulator.faults import search_delay_ms
from mail.gmail.simulator.labels import find_by_search_key, require_known
from mail.gmail.simulator.mailbox import Mailbox
from mail.gmail.simulator.search import Group, Node, Not, Term, parse_query

Sql = tuple[str, tuple[Any, ...]]

# The API reads calendar dates as midnight in Pacific Standard Time, whatever the season.
_PACIFIC = timezone(timedelta(hours=-8))
_UNIT_DAYS = {"d": 1, "m": 30, "y": 365}
_PLACES = {
    "inbox": "INBOX",
    "sent": "SENT",
    "trash": "TRASH",
    "spam": "SPAM",
    "drafts": "DRAFT",
    "draft": "DRAFT",
}
_HIDDEN = frozenset({"TRASH", "SPAM"})
_EVERYTHING: Sql = ("1", ())
_NOTHING: Sql = ("0", ())


def matching(mailbox: Mailbox, query: Mapping[str, Any]) -> Sql:
    """Return the WHERE text and its values for a list request on messages, threads or drafts.

    Raises:
        ApiError: 400, an unknown label id or a query the simulator cannot answer.
    """
    label_ids = query.get("labelIds", ())
    require_known(mailbox, label_ids)
    tree = parse_query(query.get("q", ""))
    conditions: list[Sql] = [("m.mailbox = ?", (mailbox.pk,))]
    conditions += [_has_label(label_id) for label_id in label_ids]
    conditions.append(_compile(mailbox, tree))
    delay = search_delay_ms(mailbox.connection, mailbox.address) if query.get("q") else 0
    if delay:
        newest = int(datetime.now(UTC).timestamp() * 1000) - delay
        conditions.append(("m.internal_date <= ?", (newest,)))
    asks_for_hidden = not _HIDDEN.isdisjoint(label_ids) or any(_hidden_places(tree))
    if not query.get("includeSpamTrash") and not asks_for_hidden:
        conditions.append(_negate(_any([_has_label(label) for label in sorted(_HIDDEN)])))
    return _join(" AND ", conditions)


def _hidden_places(node: Node) -> Iterator[bool]:
    """Yield true for each term that asks, unnegated, for what is hidden by default."""
    if isinstance(node, Group):
        for operand in node.operands:
            yield from _hidden_places(operand)
    elif isinstance(node, Term) and node.operator in ("in", "label"):
        yield node.value.lower() in ("trash", "spam", "anywhere")


def _compile(mailbox: Mailbox, node: Node) -> Sql:
    if isinstance(node, Not):
        return _negate(_compile(mailbox, node.operand))
    if isinstance(node, Group):
        parts = [_compile(mailbox, operand) for operand in node.operands]
        return _any(parts) if node.kind == "any" and parts else _join(" AND ", parts)
    return _TERMS[node.operator](mailbox, node.value)


def _negate(sql: Sql) -> Sql:
    return f"NOT ({sql[0]})", sql[1]


def _any(parts: list[Sql]) -> Sql:
    return _join(" OR ", parts)


def _join(word: str, parts: list[Sql]) -> Sql:
    if not parts:
        return _EVERYTHING
    text = word.join(f"({part[0]})" for part in parts)
    return text, tuple(value for part in parts for value in part[1])


def _has_label(label_id: str) -> Sql:
    return (
        "EXISTS (SELECT 1 FROM message_label l WHERE l.message = m.pk AND l.label = ?)",
        (label_id,),
    )


def _place(mailbox: Mailbox, value: str) -> Sql:
    place = value.lower()
    if place == "anywhere":
        return _EVERYTHING
    return _has_label(_PLACES[place]) if place in _PLACES else _label(mailbox, value)


def _label(mailbox: Mailbox, value: str) -> Sql:
    found = find_by_search_key(mailbox, value)
    return _any([_has_label(label_id) for label_id in found]) if found else _NOTHING


def _newer(_mailbox: Mailbox, value: str) -> Sql:
    return "m.internal_date >= ?", (_age_limit(value),)


def _older(_mailbox: Mailbox, value: str) -> Sql:
    return "m.internal_date < ?", (_age_limit(value),)


def _after(_mailbox: Mailbox, value: str) -> Sql:
    return "m.internal_date >= ?", (_moment(value),)


def _before(_mailbox: Mailbox, value: str) -> Sql:
    return "m.internal_date < ?", (_moment(value),)


def _age_limit(value: str) -> int:
    match = re.fullmatch(r"(\d{1,4})([dmy])", value.lower())
    if not match:
        raise invalid_argument(f"Not an age the simulator understands: {value[:40]}")
    age = timedelta(days=int(match[1]) * _UNIT_DAYS[match[2]])
    return int((datetime.now(UTC) - age).timestamp() * 1000) if age.days < 20000 else 0


def _moment(value: str) -> int:
    if re.fullmatch(r"\d{6,11}", value):
        return int(value) * 1000
    match = re.fullmatch(r"(\d{4})[/-](\d{1,2})[/-](\d{1,2})", value)
    try:
        year, month, day = map(int, match.groups() if match else ())
        return int(datetime(year, month, day, tzinfo=_PACIFIC).timestamp() * 1000)
    except ValueError:
        raise invalid_argument(f"Not a date the simulator understands: {value[:40]}") from None


def _words_in(column: str) -> Callable[[Mailbox, str], Sql]:
    def condition(_mailbox: Mailbox, value: str) -> Sql:
        phrase = value.replace('"', " ")
        return (
            "m.pk IN (SELECT rowid FROM message_text WHERE message_text MATCH ?)",
            (f'{column} "{phrase}"',),
        )

    return condition


def _in_header(header: str) -> Callable[[Mailbox, str], Sql]:
    def condition(_mailbox: Mailbox, value: str) -> Sql:
        return "header_has(m.raw, ?, ?)", (header, value)

    return condition


def _file(_mailbox: Mailbox, value: str) -> Sql:
    return "file_has(m.raw, ?)", (value,)


def _size(comparison: str) -> Callable[[Mailbox, str], Sql]:
    def condition(_mailbox: Mailbox, value: str) -> Sql:
        match = re.fullmatch(r"(\d{1,12})([km]?)b?", value.lower())
        if not match:
            raise invalid_argument(f"Not a size the simulator understands: {value[:40]}")
        return f"length(m.raw) {comparison} ?", (int(match[1]) * _UNIT_BYTES[match[2]],)

    return condition


def _category(_mailbox: Mailbox, value: str) -> Sql:
    label = _CATEGORIES.get(value.lower())
    return _NOTHING if label is None else _has_label(label)


def _rfc822_id(_mailbox: Mailbox, value: str) -> Sql:
    return "m.rfc822_id = ?", (value.strip("<>"),)


def _is(_mailbox: Mailbox, value: str) -> Sql:
    state = value.lower()
    if state == "read":
        return _negate(_has_label("UNREAD"))
    if state not in ("unread", "starred", "important"):
        raise invalid_argument(f"The simulator has no search term is:{value[:40]}")
    return _has_label(state.upper())


def _has(_mailbox: Mailbox, value: str) -> Sql:
    if value.lower() != "attachment":
        raise invalid_argument(f"The simulator has no search term has:{value[:40]}")
    return "m.has_attachment", ()


_UNIT_BYTES = {"": 1, "k": 1024, "m": 1024 * 1024}
_CATEGORIES = {
    "primary": "CATEGORY_PERSONAL",
    "social": "CATEGORY_SOCIAL",
    "promotions": "CATEGORY_PROMOTIONS",
    "updates": "CATEGORY_UPDATES",
    "forums": "CATEGORY_FORUMS",
}
_TERMS: dict[str, Callable[[Mailbox, str], Sql]] = {
    "in": _place,
    "label": _label,
    "newer_than": _newer,
    "older_than": _older,
    "after": _after,
    "before": _before,
    "from": _words_in("{sender} :"),
    "to": _words_in("{recipients} :"),
    "subject": _words_in("{subject} :"),
    "text": _words_in("{subject sender body} :"),
    "rfc822msgid": _rfc822_id,
    "is": _is,
    "has": _has,
    "cc": _in_header("Cc"),
    "bcc": _in_header("Bcc"),
    "list": _in_header("List-Id"),
    "deliveredto": _in_header("Delivered-To"),
    "filename": _file,
    "larger": _size(">"),
    "size": _size(">"),
    "smaller": _size("<"),
    "category": _category,
    "newer": _after,
    "older": _before,
}
