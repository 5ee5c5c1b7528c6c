"""Notifies endpoints of events: finds those that subscribed, and enqueues a job for each."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import Q

from interfaces.moments import iso
from jobs import conf
from jobs.engine.enqueue import enqueue_for_firms
from jobs.engine.new_job import EnqueueSpec
from jobs.models import DeadLetterQueue, NotificationEndpoint
from jobs.operations.notifications.webhooks import MAX_DISCORD_LENGTH
from jobs.queries.lists import LARGE_COLUMNS_OF_JOB
from jobs.states import Channel, NotificationEvent
from tenants.models import SYSTEM_SLUG

EMAIL_JOB_TYPE = "email_send"
WEBHOOK_JOB_TYPE = "webhook_send"
TEST_EVENT = "test"
# Written out, because reversing the URLs would load every page's code into the worker.
DEAD_LETTERS_PAGE = "/admin/jobs/deadletterqueue/"
DEAD_LETTER_PAGE = "/admin/jobs/deadletterqueue/{}/change/"
MAX_SUBJECT_LENGTH = 200


@dataclass(frozen=True)
class Notice:
    """One notification: the data of a webhook, and an e-mail that says the same."""

    event: str
    data: Mapping[str, Any]
    subject: str
    body: str


def link_to(path: str) -> str:
    """Return the address of an admin page; without SITE_URL only its path."""
    return conf.site_url() + path


def link_to_failure(fingerprint: str) -> str:
    """Return the address of the list of the open dead letters of one failure."""
    query = urlencode({"resolution": "open", "q": fingerprint})
    return link_to(f"{DEAD_LETTERS_PAGE}?{query}")


def subscribed(
    event: NotificationEvent, firm_ids: Collection[int]
) -> dict[int, list[NotificationEndpoint]]:
    """Return the enabled endpoints for the event, of these firms and of the system firm, by firm.

    Must run in a transaction of the engine, which sees the system firm's rows.
    """
    rows = NotificationEndpoint.objects.unscoped("of these firms and of the platform")
    found = defaultdict(list)
    mine = Q(firm_id__in=firm_ids) | Q(firm__slug=SYSTEM_SLUG)
    for endpoint in rows.filter(mine, enabled=True).select_related("firm").order_by("pk"):
        if event in endpoint.events:
            found[endpoint.firm_id].append(endpoint)
    return dict(found)


def notify(notices: Iterable[tuple[NotificationEndpoint, Notice]]) -> int:
    """Enqueue a job for each notice, in the open transaction; return how many."""
    specs = [(endpoint.firm_id, _spec(endpoint, notice)) for endpoint, notice in notices]
    if specs:
        enqueue_for_firms(specs)
    return len(specs)


def _spec(endpoint: NotificationEndpoint, notice: Notice) -> EnqueueSpec:
    payload: dict[str, Any] = {"endpoint_id": str(endpoint.pk), "event": str(notice.event)}
    if endpoint.channel == Channel.WEBHOOK:
        return EnqueueSpec(WEBHOOK_JOB_TYPE, payload | {"data": dict(notice.data)})
    if endpoint.channel == Channel.DISCORD:
        said = {"text": f"**{notice.subject}**\n{notice.body}"[:MAX_DISCORD_LENGTH]}
        return EnqueueSpec(WEBHOOK_JOB_TYPE, payload | {"data": said})
    text = {"subject": _line(notice.subject), "body": notice.body}
    return EnqueueSpec(EMAIL_JOB_TYPE, payload | text)


def _line(subject: str) -> str:
    """Return the subject as one printable line: a firm's name may hold any character."""
    shown = "".join(one if one.isprintable() else " " for one in subject)
    return " ".join(shown.split())[:MAX_SUBJECT_LENGTH]


def publish(event: NotificationEvent, letters: Sequence[tuple[int, UUID]]) -> None:
    """Notify the endpoints that subscribed to this event of these dead letters (firm and id).

    Must run in the engine's transaction of that event, and is undone with it. Dead letters of
    notifications are left out: an endpoint that cannot be reached would lead to ever more of them.
    """
    endpoints = subscribed(event, {firm_id for firm_id, _ in letters}) if letters else {}
    if not endpoints:
        return
    rows = DeadLetterQueue.objects.unscoped("the caller changed them")
    rows = rows.filter(pk__in=[pk for _, pk in letters], firm_id__in={one for one, _ in letters})
    rows = rows.exclude(job_type__in=(EMAIL_JOB_TYPE, WEBHOOK_JOB_TYPE))
    shown = rows.select_related("firm", "original_job").defer(*LARGE_COLUMNS_OF_JOB).order_by("pk")
    everywhere = [one for found in endpoints.values() for one in found if one.everywhere]
    pairs = []
    for letter in shown:
        notice = _notice(event, letter)
        mine = [one for one in endpoints.get(letter.firm_id, ()) if not one.everywhere]
        pairs += [(endpoint, notice) for endpoint in [*mine, *everywhere]]
    notify(pairs)


def _notice(event: NotificationEvent, letter: DeadLetterQueue) -> Notice:
    """Describe a dead letter by ids and names: its error and its payload may be private."""
    job = letter.original_job
    data = {
        "dead_letter_id": str(letter.pk),
        "job_id": str(job.pk),
        "firm": letter.firm.slug,
        "job_type": job.job_type,
        "category": job.category,
        "reason": letter.reason,
        "error_class": letter.error_class,
        "fingerprint": letter.fingerprint,
        "moved_at": iso(letter.moved_at),
        "link": link_to(DEAD_LETTER_PAGE.format(letter.pk)),
    }
    what = event.value.rpartition(".")[2]
    subject = f"[Mailroom] {letter.firm.name}: dead letter {what}: {job.job_type}"
    lines = "\n".join(f"{name}: {value}" for name, value in data.items() if value)
    return Notice(event, data, subject, f"A dead letter was {what}.\n\n{lines}\n")


def test_notice(endpoint: NotificationEndpoint) -> Notice:
    """Return the notice that tests an endpoint."""
    data = {"endpoint": endpoint.name}
    body = f"This is a test of the endpoint {json.dumps(endpoint.name, ensure_ascii=False)}.\n"
    return Notice(TEST_EVENT, data, "[Mailroom] A test", body)
