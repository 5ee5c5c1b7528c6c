"""Alerts on dead letters: on failures that are new, and on those that nobody reviews.

Both read from the tables what to alert to. The notifications are enqueued in the transaction that
also notes the alert: a worker killed in between loses and repeats nothing but a line of the log.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import Any, Literal

from django.db.models import Count, Exists, Max, Min, OuterRef, Q, QuerySet

from interfaces.moments import iso
from jobs import conf
from jobs.engine.clock import database_now
from jobs.engine.transactions import in_transaction
from jobs.execution.events import Event, emit
from jobs.models import DeadLetterQueue, FailureAlert, NotificationEndpoint
from jobs.operations.notifications.events import (
    DEAD_LETTER_PAGE,
    Notice,
    link_to,
    link_to_failure,
    notify,
    publish,
    subscribed,
)
from jobs.queries.lists import LARGE_COLUMNS_OF_JOB
from jobs.states import OPEN_RESOLUTIONS, NotificationEvent
from tenants.models import Firm
from tenants.scope import all_firms, firm_or_all, sees_all_firms

BATCH = 500
MOST_FAILURES = 20
# Failures alerted to in one sweep; more wait for the next.
MOST_KEYS = 5_000
MAX_CAUSE_LENGTH = 300

# Who is alerted, and to what: a firm's id and a fingerprint. The system firm's id stands for the
# platform, which is alerted to the failure in any firm.
Key = tuple[int, str]


@dataclass
class Failure:
    """The dead letters of one fingerprint, in a firm or for the platform in all firms."""

    find_sample: Callable[[], DeadLetterQueue]
    count: int = 0
    first_at: datetime | None = None
    last_at: datetime | None = None
    # The firms' slugs, by their ids.
    firms: dict[int, str] = field(default_factory=dict)

    @cached_property
    def sample(self) -> DeadLetterQueue:
        """One of the dead letters, with its job."""
        return self.find_sample()

    @property
    def what(self) -> str:
        """Type and cause in a few words."""
        cause = self.sample.error_class.rpartition(".")[2] or self.sample.reason
        return f"{self.sample.original_job.job_type} ({cause})"

    def described(self) -> dict[str, Any]:
        """Return the failure as a webhook has it; the cause was redacted when it was stored."""
        sample = self.sample
        link = link_to_failure(sample.fingerprint)
        if not sample.fingerprint:
            link = link_to(DEAD_LETTER_PAGE.format(sample.pk))
        return {
            "job_type": sample.original_job.job_type,
            "category": sample.original_job.category,
            "reason": sample.reason,
            "error_class": sample.error_class,
            "cause": sample.error[:MAX_CAUSE_LENGTH],
            "fingerprint": sample.fingerprint,
            "count": self.count,
            "firms": sorted(self.firms.values())[:MOST_FAILURES],
            "first_at": iso(self.first_at),
            "last_at": iso(self.last_at),
            "dead_letter_id": str(sample.pk),
            "link": link,
        }


def alert_new_failures() -> int:
    """Read a batch of new dead letters and alert to their failures; return how many letters."""
    return in_transaction(_new_failures)


def alert_unreviewed(firm: Firm | None = None) -> int:
    """Alert to the firm's dead letters, or every firm's, that wait for a review too long.

    Return how many failures.
    """
    return in_transaction(lambda: _unreviewed(firm))


def _new_failures() -> int:
    with all_firms("alerts of every firm"):
        rows = (
            _letters()
            .filter(alerted=False)
            .select_for_update(of=("self",), no_key=True, skip_locked=True)
        )
        batch = list(rows.order_by("pk")[:BATCH])
        if not batch:
            return 0
        taken_in = DeadLetterQueue.objects.filter(pk__in=[letter.pk for letter in batch])
        taken_in.update(alerted=True)
        publish(NotificationEvent.OPENED, [(letter.firm_id, letter.pk) for letter in batch])
        platform = Firm.objects.system().pk
        samples: dict[Key, DeadLetterQueue] = {}
        for letter in batch:
            samples.setdefault((letter.firm_id, letter.fingerprint), letter)
            samples.setdefault((platform, letter.fingerprint), letter)
        quiet = timedelta(minutes=conf.alert_quiet_minutes())
        due = _due(samples, "new_alerted_at", quiet)
        if due:
            is_open = Q(resolution__in=OPEN_RESOLUTIONS)
            failures = _failures(due, platform, is_open, samples)
            _alert(NotificationEvent.NEW_FAILURE, failures, platform)
        return len(batch)


def _unreviewed(firm: Firm | None) -> int:
    with firm_or_all(firm, "alerts of every firm"):
        platform, wait = Firm.objects.system().pk, timedelta(hours=conf.alert_unreviewed_hours())
        since = database_now() - wait
        old = Q(resolution="", moved_at__lte=since)
        known = FailureAlert.objects.filter(
            fingerprint=OuterRef("fingerprint"), unreviewed_alerted_at__gt=since
        )
        untold = Q(~Exists(known.filter(firm_id=OuterRef("firm_id"))))
        if sees_all_firms():
            # A firm's own job may have told the firm, and nobody else.
            untold |= Q(~Exists(known.filter(firm_id=platform)))
        found = DeadLetterQueue.objects.filter(old, untold).order_by()
        keys = list(found.values_list("firm_id", "fingerprint").distinct()[:MOST_KEYS])
        wanted = set(keys)
        if sees_all_firms():
            wanted |= {(platform, fingerprint) for _, fingerprint in keys}
        due = _due(wanted, "unreviewed_alerted_at", wait)
        if due:
            _alert(NotificationEvent.UNREVIEWED, _failures(due, platform, old, {}), platform)
        return len(due)


def _letters() -> QuerySet[DeadLetterQueue]:
    rows: QuerySet[DeadLetterQueue] = DeadLetterQueue.objects.select_related("firm", "original_job")
    return rows.defer(*LARGE_COLUMNS_OF_JOB)


def _due(
    keys: Iterable[Key],
    column: Literal["new_alerted_at", "unreviewed_alerted_at"],
    quiet: timedelta,
) -> set[Key]:
    """Return which of these were not alerted to in the time `quiet`, and note that they are now.

    A second worker in this function waits for the first one's commit, and then sees its note.
    """
    wanted = sorted(known := set(keys))
    new = [FailureAlert(firm_id=firm_id, fingerprint=print_) for firm_id, print_ in wanted]
    FailureAlert.objects.bulk_create(new, ignore_conflicts=True)
    alerts = FailureAlert.objects.filter(
        firm_id__in={firm_id for firm_id, _ in wanted}, fingerprint__in={one for _, one in wanted}
    ).order_by("firm_id", "fingerprint")
    now = database_now()
    due: dict[Key, FailureAlert] = {}
    for alert in alerts.select_for_update(no_key=True):
        key, last = (alert.firm_id, alert.fingerprint), getattr(alert, column)
        if key in known and (last is None or last <= now - quiet):
            due[key] = alert
    FailureAlert.objects.filter(pk__in=[alert.pk for alert in due.values()]).update(**{column: now})
    return set(due)


def _failures(
    due: Collection[Key], platform: int, which: Q, samples: dict[Key, DeadLetterQueue]
) -> dict[Key, Failure]:
    """Count each failure's dead letters that meet `which`."""
    letters = DeadLetterQueue.objects.filter(which, fingerprint__in={one for _, one in due})
    if not any(firm_id == platform for firm_id, _ in due):
        letters = letters.filter(firm_id__in={firm_id for firm_id, _ in due})
    counted = (
        letters.values("firm_id", "firm__slug", "fingerprint")
        .annotate(letters=Count("pk"), first=Min("moved_at"), last=Max("moved_at"))
        .order_by()
    )
    found: dict[Key, Failure] = {}
    for row in counted:
        for owner in {row["firm_id"], platform}:
            key = (owner, row["fingerprint"])
            if key not in due:
                continue
            if key not in found:
                sample = samples.get(key)
                of_failure = {"firm_id": row["firm_id"], "fingerprint": row["fingerprint"]}
                latest = _letters().filter(which, **of_failure).order_by("-pk")
                found[key] = Failure(partial(_sample, sample, latest))
            _add(found[key], row)
    return found


def _sample(known: DeadLetterQueue | None, latest: QuerySet[DeadLetterQueue]) -> DeadLetterQueue:
    return known or latest[0]


def _add(failure: Failure, row: dict[str, Any]) -> None:
    failure.count += row["letters"]
    failure.firms[row["firm_id"]] = row["firm__slug"]
    failure.first_at = min(failure.first_at or row["first"], row["first"])
    failure.last_at = max(failure.last_at or row["last"], row["last"])


def _alert(event: NotificationEvent, failures: dict[Key, Failure], platform: int) -> None:
    """Log each firm's failures, and notify its endpoints and those of the platform."""
    by_owner: dict[int, list[Failure]] = defaultdict(list)
    for (owner, _), failure in sorted(failures.items(), key=lambda item: -item[1].count):
        by_owner[owner].append(failure)
    notices = []
    endpoints = subscribed(event, by_owner)
    for owner, found in by_owner.items():
        mine = [one for one in endpoints.get(owner, ()) if one.firm_id == owner]
        notices += [(endpoint, _notice(event, endpoint, found)) for endpoint in mine]
        # A failure is logged for its own firm; for the platform only if it is the system firm's.
        logged = [one for one in found if owner != platform or list(one.firms) == [platform]]
        if logged:
            _log(event, owner, logged)
    notify(notices)


def _log(event: NotificationEvent, firm_id: int, found: Sequence[Failure]) -> None:
    """Log a line for each new failure, but one line for all unreviewed ones, with their number."""
    if event is NotificationEvent.UNREVIEWED:
        letters = sum(failure.count for failure in found)
        emit(Event.UNREVIEWED, tenant_id=firm_id, failures=len(found), dead_letters=letters)
        return
    for failure in found:
        emit(
            Event.NEW_FAILURE,
            tenant_id=firm_id,
            job_type=failure.sample.original_job.job_type,
            reason=failure.sample.reason,
            error_class=failure.sample.error_class,
            fingerprint=failure.sample.fingerprint,
            dead_letters=failure.count,
            dead_letter_id=str(failure.sample.pk),
        )


def _notice(
    event: NotificationEvent, endpoint: NotificationEndpoint, found: Sequence[Failure]
) -> Notice:
    described = [failure.described() for failure in found[:MOST_FAILURES]]
    more = len(found) - len(described)
    firm = None if endpoint.everywhere else endpoint.firm.slug
    data = {"firm": firm, "failures": described, "more": more}
    what = "new failure" if event is NotificationEvent.NEW_FAILURE else "unreviewed failure"
    title = f"{what}: {found[0].what}" if len(found) == 1 else f"{len(found)} {what}s"
    name = "Platform" if endpoint.everywhere else endpoint.firm.name
    blocks = [_block(one) for one in described]
    if more:
        blocks.append(f"And {more} more: {link_to('/admin/jobs/deadletterqueue/groups/')}")
    return Notice(event, data, f"[Mailroom] {name}: {title}", "\n\n".join(blocks) + "\n")


def _block(failure: dict[str, Any]) -> str:
    letters = "1 dead letter" if failure["count"] == 1 else f"{failure['count']} dead letters"
    return (
        f"{failure['job_type']}: {failure['reason'].replace('_', ' ')}\n"
        f"  {failure['error_class']}: {failure['cause']}\n"
        f"  {letters} of {', '.join(failure['firms'])}, the first at {failure['first_at']}\n"
        f"  {failure['link']}"
    )
