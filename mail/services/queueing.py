"""Enqueues the mail app's jobs: their keys, locks and priorities.

Keys are unique among live jobs. But a running job that reads a mailbox may already have read past
what a later request is about. So the keys of syncs and backfills contain the mailbox's sync
generation, which grows when one starts: at most one waits behind the running one.
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
# The most messages that one job ingests, judges or labels, and the fewest that are worth a page.
PAGE = 100
SMALLEST_PAGE = 5


def sync_lock(account_id: UUID) -> str:
    """Return the key of the lock under which a mailbox is synced."""
    return f"gmail-sync:{account_id}"


def ingest_lock(account_id: UUID) -> str:
    """Return the lock key for ingesting a mailbox's pages, so that no message is fetched twice."""
    return f"gmail-ingest:{account_id}"


def thread_lock(thread_id: UUID) -> str:
    """Return the key of the lock under which a thread is changed."""
    return f"gmail-thread:{thread_id}"


def lock_of_action(action_id: UUID) -> str:
    """Return the lock key of the thread that the action changes. Must run in the firm's scope."""
    thread_id = Action.objects.filter(pk=action_id).values_list("message__thread_id", flat=True)
    found = thread_id.first()
    # The job of an action that is gone only says so and ends, so it needs no common lock.
    return thread_lock(found) if found is not None else f"gmail-action:{action_id}"


def request_sync(
    account: MailAccount,
    *,
    job_type: SyncType = "sync",
    history_id: str = "",
    force_full: bool = False,
) -> EnqueueResult:
    """Request a sync; requests are joined in the one that has not started yet.

    Must run in the firm's scope. `history_id` is the one that a push named.
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
    """Say whether a sync waits that has not started reading. Must run in the firm's scope.

    A sync that failed and will be retried counts, too, although `sync_key` no longer names it.
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
    """Return the key of the one sync of this kind that may wait, by the account's generation."""
    kind = "sync:full" if force_full else job_type
    return f"{kind}:{account.pk}:{account.sync_generation}"


def _request_anew(job_type: str, account: MailAccount) -> EnqueueResult:
    return enqueue_after_running(job_type, {"account_id": account.pk}, retry_will_do=True)


def request_label_sync(account: MailAccount) -> EnqueueResult:
    """Have the mailbox's labels read. Must run in the firm's scope."""
    return _request_anew(LABELS_TYPE, account)


def request_watch(account: MailAccount) -> None:
    """Have the mailbox watched, if a topic is configured. Must run in the firm's scope."""
    if pubsub_topic():
        _request_anew(WATCH_TYPE, account)


def request_lost_snoozes(account: MailAccount) -> None:
    """Have lost snoozed mail brought back to the inbox. Must run in the firm's scope."""
    _request_anew(LOST_SNOOZES_TYPE, account)


def request_backfill(account: MailAccount, *, query: str | None = None) -> EnqueueResult:
    """Request all mail that `query` finds, however old; without one, all inbox and sent mail.

    Must run in the firm's scope.
    """
    account.refresh_from_db(fields=["sync_generation"])
    return _enqueue_backfill(
        account, query=query, page_token=None, history_id="", part=str(account.sync_generation)
    )


def enqueue_next_page(
    account: MailAccount, *, query: str | None, page_token: str, history_id: str
) -> None:
    """Continue a backfill at its next page."""
    _enqueue_backfill(
        account, query=query, page_token=page_token, history_id=history_id, part=page_token
    )


def _enqueue_backfill(
    account: MailAccount, *, query: str | None, page_token: str | None, history_id: str, part: str
) -> EnqueueResult:
    # A digest, because queries and page tokens may be longer than keys.
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
    """Enqueue the messages that are not stored yet, many by the page; return how many got jobs.

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
                # After mail that arrives by itself, because pages hold older mail.
                priority=Priority.NORMAL,
            )
            for page in pages
        ]
    )
    made = zip(pages, results, strict=True)
    return sum(len(page) for page, result in made if result.created)


def enqueue_each_ingest(account: MailAccount, gmail_message_ids: Iterable[str]) -> int:
    """Enqueue a job for each message; return how many are new. Must run in the firm's scope."""
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
    """Have Mailroom's labels created, and decisions of the last days shown in Gmail.

    Must run in the firm's scope.
    """
    return _request_anew("activate.gmail", account)


def enqueue_relabels(threads: Iterable[MailThread], asked_by: UUID) -> int:
    """Have the threads' decisions shown in Gmail, once for each asking job; return how many jobs.

    Must run in the firm's scope. Jobs of earlier requests are not enough, because they may have
    read the mailbox's mode before it changed.
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
    """Have the action executed, and store its job's id. Must run in the firm's scope."""
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
    """Have the rule's actions applied to the mailbox's mail of the last days, older than `before`.

    Must run in the firm's scope.
    """
    return enqueue(
        "apply_rule",
        {"account_id": account.pk, "rule_id": rule.pk, "days": days, "before": before},
        priority=Priority.LOW,
    )


def enqueue_label_page(actions: Sequence[Action]) -> None:
    """Have first labels put on messages, many by the page. Must run in the firm's scope.

    The threads must have no other label of a category.
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
    """Store the id of the job that will execute the action."""
    action.job_id = result.job_id
    Action.objects.filter(pk=action.pk).update(job_id=result.job_id)
