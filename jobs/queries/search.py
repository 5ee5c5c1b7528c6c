"""The search of jobs: qualifiers such as `type:sync error:timeout created:>2026-01-01`, and an id.

Unless an index finds the jobs, a page of a search reads the newest jobs in its scope, time and user
for a limited time, so that its cost does not grow with the table. The next page continues after
them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import OuterRef, Q, QuerySet, Subquery, TextField
from django.db.models.fields.json import KeyTextTransform
from django.db.models.functions import Cast
from django.db.models.lookups import Exact

from interfaces.redaction import is_secret_key
from jobs.errors import FilterInvalid, SearchInvalid
from jobs.models import DeadLetterQueue, IdempotencyKey, JobQueue
from jobs.queries.filters import (
    UNKNOWN_USER,
    filter_jobs,
    id_range,
    users_named,
    with_status,
)
from jobs.queries.held_back import ANYTHING, HELD_BACK, limits_in_force
from jobs.queries.last_errors import with_last_error
from jobs.queries.lists import Window
from jobs.queries.search_times import invalid, period_of
from jobs.states import LIVE, DeadReason, Status
from tenants.models import Firm
from tenants.scope import current_scope

PAYLOAD = "payload."

# Filters that limit how many jobs a page may have to read.
_BOUNDS = ("created_after", "created_before", "user")
# The statuses whose jobs an index finds.
_INDEXED = frozenset({*LIVE, Status.DLQ, Status.FAILED, Status.CANCELED})

# Shorter texts may begin an id, but are rather words or numbers of an error.
SHORTEST_ID = 6
_TOKEN = re.compile(r'([a-z_]+(?:\.\w+)*):("[^"]*"|\S*)|("[^"]*"|\S+)')


@dataclass(frozen=True)
class FoundJobs:
    """The jobs that a search finds, and the window it reads: None if an index finds the jobs."""

    rows: QuerySet[JobQueue]
    window: Window[JobQueue] | None = None


@dataclass
class _Search:
    rows: QuerySet[JobQueue]
    window: QuerySet[JobQueue]
    # The firms whose payloads the caller may read; None means all in scope.
    readable: Collection[int] | None
    # The firms that are searched; None means all.
    firms: Collection[int] | None
    given: dict[str, str]
    # Whether an index finds the rows.
    indexed: bool = False

    def narrow(self, *conditions: Q | Exact, **lookups: Any) -> None:
        """Keep the rows that meet the conditions."""
        self.rows = self.rows.filter(*conditions, **lookups)


def find_jobs(
    jobs: QuerySet[JobQueue],
    *,
    search: str | None = None,
    readable: Collection[int] | None = None,
    firms: Collection[int] | None = None,
    applied: Mapping[str, Any] | None = None,
    **filters: Any,
) -> FoundJobs:
    """Narrow `jobs` by the filters of `filter_jobs` and by a search.

    `readable` are the firms whose payloads the caller may read; None stands for all in scope.
    `firms` and the filters `applied` narrow `jobs` already; with them a search has less to read.

    Raises:
        FilterInvalid: no user in scope has the name `user`.
        SearchInvalid: a qualifier is unknown, given twice, or has no valid value.
    """
    rows = filter_jobs(jobs, **filters)
    if not search or not search.strip():
        return FoundJobs(rows)
    chosen = {
        name: value for name, value in {**(applied or {}), **filters}.items() if value is not None
    }
    bounds = {name: chosen[name] for name in _BOUNDS if name in chosen}
    window = filter_jobs(JobQueue.objects.order_by(), **bounds)
    if firms is not None:
        window = window.filter(firm_id__in=firms)
    indexed = "held_back" in chosen or chosen.get("status") in _INDEXED
    if "\0" in search:
        raise invalid("", "invalid", "cannot contain the NUL character")
    given, term = _parse(search)
    scope = current_scope()
    if firms is None and scope is not None:
        firms = scope.firm_ids
    found = _Search(rows, window, readable, firms, given, indexed)
    for name in sorted(given, key=lambda name: name != "firm"):
        value = given[name]
        qualifier = _payload if name.startswith(PAYLOAD) else QUALIFIERS[name]
        qualifier(found, name, value)
    if term:
        _term(found, term)
    return FoundJobs(found.rows, None if found.indexed else Window(found.window))


def error_search(text: str, *, qualified: bool = True) -> str:
    """Return the search for this text in errors; "" if it may be an id, or has a qualifier.

    In the search of dead letters, which is not `qualified`, only "error:" is one.
    """
    # What is between double quotes is searched for without them.
    longest = max(text.split('"'), key=len).strip()
    may_be_id = len(longest) >= SHORTEST_ID and id_range(longest) is not None
    if not longest or may_be_id or text.lstrip().startswith("error:"):
        return ""
    try:
        given = _parse(text)[0] if qualified else {}
    except SearchInvalid:
        return ""
    return "" if given else f'error:"{longest}"'


def _parse(text: str) -> tuple[dict[str, str], str]:
    """Return the qualifiers and the rest of the text: an id or a key, which may hold a colon."""
    given: dict[str, str] = {}
    rest = []
    for match in _TOKEN.finditer(text):
        name, value = match[1], (match[2] or "").strip('"')
        if name is None or not _is_qualifier(name):
            rest.append(match[0].strip('"'))
            continue
        if not value:
            raise invalid(name, "required", "give a value")
        if name in given:
            raise invalid(name, "repeated", "is given twice")
        given[name] = value
    return given, " ".join(rest)


def _is_qualifier(name: str) -> bool:
    if name in QUALIFIERS or (name.startswith(PAYLOAD) and name != PAYLOAD):
        return True
    if close := difflib.get_close_matches(name, QUALIFIERS, n=1, cutoff=0.75):
        raise invalid(name, "unknown", f"there is no such qualifier; did you mean {close[0]}:?")
    return False


def _one_of(name: str, value: str, words: Collection[str]) -> str:
    if value not in words:
        raise invalid(name, "invalid_choice", f"must be one of {', '.join(words)}")
    return value


def _type(found: _Search, _: str, value: str) -> None:
    found.narrow(job_type=value)


def _firm(found: _Search, name: str, value: str) -> None:
    firm = Firm.objects.filter(slug=value).values_list("pk", flat=True).first()
    # A firm that the caller may not see gets the same answer as one that does not exist.
    if firm is None or (found.firms is not None and firm not in found.firms):
        raise invalid(name, "unknown", "there is no such firm")
    found.firms = [firm]
    found.rows, found.window = found.rows.filter(firm_id=firm), found.window.filter(firm_id=firm)


def _status(found: _Search, name: str, value: str) -> None:
    _one_of(name, value, [str(status) for status in Status])
    found.rows = with_status(found.rows, value)
    found.indexed |= value in _INDEXED


def _error(found: _Search, _: str, value: str) -> None:
    found.narrow(with_last_error(value))


def _key(found: _Search, _: str, value: str) -> None:
    """Keep the job that has the key, else the jobs whose key begins with the text."""
    ids: list[UUID] = []
    if found.firms is not None:
        # The indexes begin with the firm.
        live = JobQueue.objects.filter(firm_id__in=found.firms, live_key=value)
        kept = IdempotencyKey.objects.filter(firm_id__in=found.firms, key=value)
        ids += live.values_list("pk", flat=True)
        ids += kept.values_list("job_id", flat=True)
    if ids:
        found.narrow(pk__in=ids)
        found.indexed = True
    else:
        found.narrow(idempotency_key__startswith=value)


def _correlation(found: _Search, _: str, value: str) -> None:
    found.narrow(correlation_id=value)


def _user(found: _Search, name: str, value: str) -> None:
    try:
        users = users_named(value)
        found.narrow(user_id__in=users)
        found.window = found.window.filter(user_id__in=users)
    except FilterInvalid as error:
        raise invalid(name, "unknown", UNKNOWN_USER) from error


def _reason(found: _Search, name: str, value: str) -> None:
    """Keep jobs that are held back, or were dead-lettered, for this reason."""
    held_back = [*(str(code) for code in HELD_BACK), ANYTHING]
    dead = [str(reason) for reason in DeadReason]
    if _one_of(name, value, [*held_back, *dead]) in held_back:
        found.narrow(limits_in_force().held_back(value))
        found.indexed = True
    else:
        letters = DeadLetterQueue.objects.filter(
            firm_id=OuterRef("firm_id"), original_job_id=OuterRef("pk")
        )
        # Not EXISTS: PostgreSQL would join with all dead letters.
        newest = Subquery(letters.order_by("-pk").values("reason")[:1])
        found.narrow(Exact(newest, value))


def _created(found: _Search, name: str, value: str) -> None:
    after, before = period_of(name, value)
    found.rows = filter_jobs(found.rows, created_after=after, created_before=before)
    found.window = filter_jobs(found.window, created_after=after, created_before=before)


def _payload(found: _Search, name: str, value: str) -> None:
    path = name.removeprefix(PAYLOAD).split(".")
    if found.readable == []:
        raise invalid(name, "permission_denied", "only operators can search payloads")
    if any(map(is_secret_key, path)):
        raise invalid(name, "secret_key", "secret fields cannot be searched")
    if found.readable is not None:
        found.narrow(firm_id__in=found.readable)
    for needed in ("type", "created"):
        if needed not in found.given:
            message = (
                f"also needs {needed}:, because the type does not declare the field searchable"
            )
            raise invalid(name, f"needs_{needed}", message)
    at: Any = "payload"
    for part in path:
        at = KeyTextTransform(part, at)
    # SQLite does not compare a number in JSON with a text.
    found.narrow(Exact(Cast(at, TextField()), value))


def _term(found: _Search, term: str) -> None:
    """Keep a job by its id or the beginning of it, else by a correlation id or key."""
    span = id_range(term)
    if span is not None and found.rows.filter(pk__range=span).exists():
        found.narrow(pk__range=span)
        found.indexed = True
        return
    found.narrow(Q(correlation_id=term) | Q(idempotency_key__startswith=term))


QUALIFIERS: dict[str, Callable[[_Search, str, str], None]] = {
    "type": _type,
    "firm": _firm,
    "status": _status,
    "error": _error,
    "key": _key,
    "correlation": _correlation,
    "user": _user,
    "reason": _reason,
    "created": _created,
}
