"""Applies a rule's actions to mail that is older than the rule."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.utils import timezone

from mail.errors import RowGone
from mail.models import MailAccount, MailThread, Message, Rule
from mail.services.mailboxes.modes import may_write
from mail.services.queueing import enqueue_rule
from mail.services.rules.rules import acted_on, asked_in, facts_of, request_actions
from mail.services.rules.scopes import in_scope, of_mailbox
from mail.services.rules.unseen import handed_to_agents, lock_for_answers
from mail.services.timelines.threads import is_discarded
from tenants.scope import firm_scope

PAGE = 100
MAX_DAYS = 3650


def apply_page(
    account: MailAccount, rule_id: UUID, *, days: int, before: UUID | None
) -> dict[str, Any]:
    """Request the rule's actions on the next page of mail, and the job of the page after it.

    Everything is in one transaction, so that a repeated job finds it done. Messages on which the
    rule, as it is now, has acted already are left out, and so are messages of agents, in trash or
    in spam.

    Raises:
        RowGone: the rule is gone, or is another mailbox's.
    """
    with firm_scope(account.firm_id):
        # A job enqueued or edited by hand may name the rule of another mailbox.
        rule = Rule.objects.filter(of_mailbox(account), pk=rule_id).first()
        if rule is None:
            raise RowGone(f"rule {rule_id} is gone, or belongs to another mailbox")
        if not rule.enabled or not may_write(account):
            return {
                "skipped": True,
                "reason": "The rule is disabled, or the mailbox is not written to",
            }
        asked = next(iter(asked_in(account, [rule])), None)
        if asked is None:
            return {"skipped": True, "reason": "The rule does not apply to this mailbox"}
        page = _page(account, rule, days=days, before=before)
        agents = handed_to_agents([one.pk for one in page])
        seen = [one for one in page if one.pk not in agents and not is_discarded(one)]
        matched = [one for one in seen if asked.holds(facts_of(one))]
        lock_for_answers(account, [(message, [rule]) for message in matched])
        _lock_threads(matched)
        for message in matched:
            request_actions(rule, message)
        if len(page) == PAGE:
            enqueue_rule(rule, account, days=days, before=page[-1].pk)
    return {"looked_at": len(page), "matched": len(matched)}


def _page(account: MailAccount, rule: Rule, *, days: int, before: UUID | None) -> list[Message]:
    messages = Message.objects.filter(
        in_scope(rule),
        account=account,
        outgoing=False,
        internal_date__gte=timezone.now() - timedelta(days=days),
    )
    if before is not None:
        messages = messages.filter(pk__lt=before)
    messages = messages.exclude(pk__in=acted_on(rule).values("message_id"))
    return list(messages.defer("text", "html", "hidden_text").order_by("-pk")[:PAGE])


def _lock_threads(messages: Sequence[Message]) -> None:
    """Lock the threads, so that no job that judges one of them requests the same actions."""
    threads = MailThread.objects.filter(pk__in={message.thread_id for message in messages})
    list(threads.select_for_update(no_key=True).order_by("pk").only("pk", "firm_id"))
