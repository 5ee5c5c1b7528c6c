"""What people do with drafts outside Gmail: order a rework, or discard a draft."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from mail.errors import WrongState
from mail.models import MAX_INSTRUCTION_LENGTH, Draft, DraftStatus, Mode
from mail.services.drafting.requests import enqueue_rework, enqueue_withdrawal
from mail.services.drafting.task import MOST_REWORKS
from mail.services.enqueue_after import still_waits
from mail.services.mailboxes.connection import why_not_used
from mail.services.mailboxes.modes import SUGGESTS_ONLY
from mail.services.operation import audit
from tenants.audit import SERVICE, Actor
from tenants.scope import firm_scope

P = ParamSpec("P")


def why_left_alone(draft: Draft) -> str:
    """Return why nothing may be done to the draft in Gmail, empty if it may."""
    if draft.account.mode == Mode.SUGGEST:
        return f"{SUGGESTS_ONLY}: make it active first."
    return why_not_used(draft.account)


def _on_ready(
    operation: Callable[Concatenate[Draft, P], None],
) -> Callable[Concatenate[Draft, P], None]:
    """Run an operation on the draft's row, read anew and locked, in the scope of its firm."""

    @wraps(operation)
    def run(draft: Draft, /, *args: P.args, **kwargs: P.kwargs) -> None:
        with firm_scope(draft.firm_id):
            locked = Draft.objects.select_for_update(of=("self",), no_key=True).select_related(
                "thread", "account"
            )
            current = locked.get(pk=draft.pk)
            if current.status != DraftStatus.READY:
                raise WrongState(f"The draft is {current.get_status_display().lower()}.")
            if obstacle := why_left_alone(current):
                raise WrongState(obstacle)
            operation(current, *args, **kwargs)

    return run


@_on_ready
def request_rework(
    draft: Draft, *, instruction: str = "", reason: str = "", by: Actor = SERVICE
) -> None:
    """Have the draft written anew by this instruction, and by those that wait for the same rework.

    Raises:
        WrongState: it is not in Gmail, is being reworked, was reworked as often as allowed,
            waits for a rework whose order is as long as allowed, or its mailbox is disconnected or
            suggests only.
    """
    if draft.rework_count >= MOST_REWORKS:
        raise WrongState(f"The draft was reworked {MOST_REWORKS} times.")
    rework = enqueue_rework(draft.thread)
    if not still_waits(rework):
        # The job may have read its order already, and no later job would read this one.
        raise WrongState("The draft is being reworked; ask again once that is done.")
    earlier = "" if rework.created else draft.next_instruction
    draft.next_instruction = _joined(earlier, instruction.strip())
    if len(draft.next_instruction) > MAX_INSTRUCTION_LENGTH:
        raise WrongState(
            "A rework already waits, and its order is as long as it may be; ask again "
            "once it is done."
        )
    draft.save(update_fields=["next_instruction"])
    _audit("draft.rework", draft, by, reason)


def _joined(earlier: str, instruction: str) -> str:
    """Return both orders joined; an order that repeats the last one is left out."""
    if not instruction or f"\n\n{earlier}".endswith(f"\n\n{instruction}"):
        return earlier
    return f"{earlier}\n\n{instruction}".strip()


@_on_ready
def discard_draft(draft: Draft, *, reason: str = "", by: Actor = SERVICE) -> None:
    """Move the draft in Gmail to the trash, unless the person has edited it there.

    Raises:
        WrongState: it is not in Gmail, or its mailbox is disconnected or suggests only.
    """
    enqueue_withdrawal(draft)
    _audit("draft.discard", draft, by, reason)


def _audit(operation: str, draft: Draft, by: Actor, reason: str) -> None:
    # The order is left out, because it may quote mail.
    audit(operation, draft, by, reason, before={"status": str(draft.status)})
