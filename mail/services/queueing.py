"""How the mail app's jobs are put into the queue: their keys, locks and priorities.

Keys are unique among live jobs. A job that reads a mailbox as it is may be past the point a later
request is about while it still runs; so the keys of syncs and backfills name the mailbox's sync
generation, which grows when one starts: at most one waits behind the one that runs.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal, get_args
from uuid import UUID

from jobs.models import JobQueue
from jobs.queue import EnqueueResult, EnqueueSpec, enqueue, enqueue_many
from jobs.states import Category, Priority, Status
from mail.conf import pubsub_topic
from mail.gmail import units
from mail.models import Action, MailAccount, MailThread, Message, Rule
from mail.services.enqueue_after import enqueue_after_running

SyncType = Literal["sync", "history.sync.gmail"]
SYNC_TYPES: tuple[str, ...] = get_args(SyncType)
SYNC_PRIORITY = Priority.HIGH
LABELS_TYPE = "labels.sync.gmail"
WATCH_TYPE = "watch.renew.gmail"
LOST_SNOOZES_TYPE = "unsnooze.lost.gmail"
# How many messages one job ingests, judges or labels at most, and from how many on that pays.
PAGE = 100
SMALLEST_PAGE = 5


def sync_lock(account_id: UUID) -> str:
    """Name the lock under which a mailbox is read."""
    return f"gmail-sync:{account_id}"


def ingest_lock(account_id: UUID) -> str:
    """Name the lock under which a mailbox's pages are ingested, so that none is fetched twice."""
    return f"gmail-ingest:{account_id}"


def thread_lock(thread_id: UUID) -> str:
    """Name the lock under which a thread is changed."""
    return f"gmail-thread:{thread_id}"


def lock_of_action(action_id: UUID) -> str:
    """Name the lock of the thread that the action changes. Must run in the firm's scope."""
    thread_id = Action.objects.filter(pk=action_id).values_list("message__thread_id", flat=True)
    found = thread_id.first()
    # Of an action that is gone there is nothing to keep apart: its job says so and ends.
    return thread_lock(found) if found is not None else f"gmail-action:{action_id}"


def request_sync(
    account: MailAccount,
    *,
    job_type: SyncType = "sync",
    history_id: str = "",
    force_full: bool = False,
) -> EnqueueResult:
    """Ask for a sync; requests coalesce into the one that has not started yet.

    Must run in the firm's scope. `history_id` is what a notification named.
    """
    account.refresh_from_db(fields=["sync_generation"])
    payload: dict[str, object] = {"account_id": account.pk, "history_id": history_id}
    if job_type == "sync":
        payload["force_full"] = force_full
    return enqueue(
        job_type,
        payload,
        priority=SYNC_PRIORITY,
        idempotency_key=sync_key(account, job_type, force_full=force_full),
    )


def has_pending_sync(account: MailAccount) -> bool:
    """Say whether a sync waits that has yet to start reading. Must run in the firm's scope.

    Also one that failed and will be tried again, which `sync_key` no longer names.
    """
    pending = JobQueue.objects.filter(
        category=Category.SYNC,
        job_type__in=SYNC_TYPES,
        priority=SYNC_PRIORITY,
        lock_key=sync_lock(account.pk),
        status=Status.PENDING,
    )
    # One query for each of the two partial indexes.
    return pending.filter(ready=True).exists() or pending.filter(waiting=True).exists()


def sync_key(account: MailAccount, job_type: str, *, force_full: bool = False) -> str:
    """Name the one sync of this kind that may wait, as far as the account's row says."""
    kind = "sync:full" if force_full else job_type
    return f"{kind}:{account.pk}:{account.sync_generation}"


def _request_anew(job_type: str, account: MailAccount) -> EnqueueResult:
    return enqueue_after_running(job_type, {"account_id": account.pk}, retry_will_do=True)


def request_label_sync(account: MailAccount) -> EnqueueResult:
    """Have the mailbox's labels read. Must run in the firm's scope."""
    return _request_anew(LABELS_TYPE, account)


def request_watch(account: MailAccount) -> None:
    """Have the mailbox watched, where a topic is configured. Must run in the firm's scope."""
    if pubsub_topic():
        _request_anew(WATCH_TYPE, account)


def request_lost_snoozes(account: MailAccount) -> None:
    """Have snoozed mail brought back that no snooze will bring back. Must run in the firm's scope."""
    _request_anew(LOST_SNOOZES_TYPE, account)


def request_backfill(account: MailAccount, *, query: str | None = None) -> EnqueueResult:
    """Ask for everything `query` finds (None: all inbox and sent mail), however old.

    Must run in the firm's scope.
    """
    account.refresh_from_db(fields=["sync_generation"])
    return _enqueue_backfill(
        account, query=query, page_token=None, history_id="", part=str(account.sync_generation)
    )


def enqueue_next_page(
    account: MailAccount, *, query: str | None, page_token: str, history_id: str
) -> None:
    """Go on with a backfill at its next page."""
    _enqueue_backfill(
        account, query=query, page_token=page_token, history_id=history_id, part=page_token
    )


def _enqueue_backfill(
    account: MailAccount, *, query: str | None, page_token: str | None, history_id: str, part: str
) -> EnqueueResult:
    # Queries and page tokens have no length limit, keys have one.
    digest = hashlib.sha256(f"{part}\n{query}".encode()).hexdigest()[:32]
    return enqueue(
        "backfill.gmail",
        {
            "account_id": account.pk,
            "page_token": page_token,
            "query": query,
            "history_id": history_id,
        },
        priority=Priority.LOW,
        idempotency_key=f"backfill.gmail:{account.pk}:{digest}",
    )


def enqueue_ingests(account: MailAccount, gmail_message_ids: Iterable[str]) -> int:
    """Enqueue what is not stored yet, many by the page; return for how many that made jobs.

    Must run in the firm's scope.
    """
    wanted = list(dict.fromkeys(gmail_message_ids))
    stored = set(
        Message.objects.filter(account=account, gmail_message_id__in=wanted).values_list(
            "gmail_message_id", flat=True
        )
    )
    new = [one for one in wanted if one not in stored]
    if len(new) < SMALLEST_PAGE:
        return enqueue_each_ingest(account, new)
    pages = [new[start : start + PAGE] for start in range(0, len(new), PAGE)]
    results = enqueue_many(
        [
            EnqueueSpec(
                "ingest.page.gmail",
                {"account_id": account.pk, "gmail_message_ids": page},
                # Behind mail that arrives by itself: a page is what was there before.
                priority=Priority.NORMAL,
            )
            for page in pages
        ]
    )
    made = zip(pages, results, strict=True)
    return sum(len(page) for page, result in made if result.created)


def enqueue_each_ingest(account: MailAccount, gmail_message_ids: Iterable[str]) -> int:
    """Enqueue a job for each message; return how many that made. Must run in the firm's scope."""
    results = enqueue_many(
        [
            EnqueueSpec(
                "ingest.gmail",
                {"account_id": account.pk, "gmail_message_id": gmail_message_id},
                priority=Priority.HIGH,
            )
            for gmail_message_id in gmail_message_ids
        ]
    )
    return sum(result.created for result in results)


def about_message(message: Message) -> dict[str, object]:
    """Return the payload of a job about a message and its thread."""
    return {
        "account_id": message.account_id,
        "message_id": message.pk,
        "thread_id": message.thread_id,
    }


def request_activation(account: MailAccount) -> EnqueueResult:
    """Have Mailroom's labels made, and decisions of the last days shown in Gmail.

    Must run in the firm's scope.
    """
    return _request_anew("activate.gmail", account)


def enqueue_relabels(threads: Iterable[MailThread], asked_by: UUID) -> int:
    """Have the threads' decisions shown in Gmail, once for each job that asks; return how many jobs that made.

    Must run in the firm's scope. What an earlier one asked for may be past the mailbox's mode.
    """
    results = enqueue_many(
        [
            EnqueueSpec(
                "relabel.gmail",
                {"account_id": thread.account_id, "thread_id": thread.pk},
                priority=Priority.LOW,
                idempotency_key=f"relabel.gmail:{thread.pk}:{asked_by}",
            )
            for thread in threads
        ]
    )
    return sum(result.created for result in results)


def enqueue_action(action: Action, thread_id: UUID) -> EnqueueResult:
    """Have the action executed, and note its job. Must run in the firm's scope."""
    result = enqueue(
        "action.gmail",
        {"account_id": action.account_id, "action_id": action.pk},
        priority=Priority.NORMAL,
        lock_key=thread_lock(thread_id),
    )
    note_job(action, result)
    return result


def enqueue_rule(
    rule: Rule, account: MailAccount, *, days: int, before: UUID | None = None
) -> EnqueueResult:
    """Have the rule's actions done on the mailbox's mail of the last days, older than `before`.

    Must run in the firm's scope.
    """
    return enqueue(
        "apply_rule",
        {"account_id": account.pk, "rule_id": rule.pk, "days": days, "before": before},
        priority=Priority.LOW,
    )


def enqueue_label_page(actions: Sequence[Action]) -> None:
    """Have first labels put on messages, many by the page. Must run in the firm's scope.

    Their threads carry no other label of a category.
    """
    if len(actions) < SMALLEST_PAGE:
        for action in actions:
            enqueue_action(action, action.message.thread_id)
        return
    labels = Counter(action.parameters["label"] for action in actions)
    result = enqueue(
        "label.page.gmail",
        {
            "account_id": actions[0].account_id,
            "action_ids": [action.pk for action in actions],
            "units": sum(
                min(count * units.MODIFY, units.BATCH_MODIFY) for count in labels.values()
            ),
        },
        priority=Priority.NORMAL,
    )
    Action.objects.filter(pk__in=[action.pk for action in actions]).update(job_id=result.job_id)


def note_job(action: Action, result: EnqueueResult) -> None:
    """Keep which job will execute the action."""
    action.job_id = result.job_id
    Action.objects.filter(pk=action.pk).update(job_id=result.job_id)
