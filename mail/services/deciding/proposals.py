"""Checks the actions that a model proposes against what the mailbox has, and asks for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mail.errors import ActionInvalid
from mail.llm.base import OddProposal, ProposedAction
from mail.llm.proposals import OfferedLabel
from mail.models import (
    Action,
    ActionType,
    Approval,
    ApprovalStatus,
    Decision,
    MailAccount,
    MailLabel,
    Message,
)
from mail.rules.safety import check_safety
from mail.services.actions.actions import request_action
from mail.services.actions.types import LABEL_ACTIONS, check_parameters
from mail.services.rules.labels import MailboxLabels, choosable_labels, label_called
from mail.services.timelines.threads import is_discarded

MAX_LABELS = 200
MAX_OPEN_QUESTIONS = 20

UNKNOWN_LABEL = "It names no label that the model may choose."
CONTRADICTED = "An earlier proposal is about the same."
ASKED_BEFORE = "It was asked for before."
DISCARDED = "The message is in the trash or among spam."
NOT_NOW = "Mailroom does nothing with this message now: see the mailbox's mode."
ENOUGH_ASKED = f"{MAX_OPEN_QUESTIONS} proposals of this mailbox already wait for approval."

# Of several actions about the same thing only the first is taken.
_ABOUT = {
    **dict.fromkeys(
        [ActionType.ARCHIVE, ActionType.SNOOZE, ActionType.TRASH, ActionType.DELETE], "place"
    ),
    **dict.fromkeys([ActionType.MARK_READ, ActionType.MARK_UNREAD], "read"),
    **dict.fromkeys([ActionType.STAR, ActionType.UNSTAR], "star"),
}


@dataclass
class CheckedProposal:
    """A proposal with the parameters of its action, or the reason why it is refused."""

    proposal: ProposedAction
    action_type: ActionType
    parameters: dict[str, Any]
    refused: str = ""

    @property
    def subject(self) -> str:
        """What it changes: a label, or a state of the message."""
        return str(self.parameters.get("label") or _ABOUT[self.action_type])

    @property
    def waits(self) -> bool:
        """Whether it needs a person's approval."""
        return check_safety(
            self.action_type,
            confidence=self.proposal.confidence,
            asked_by_model=self.proposal.needs_approval,
        ).needs_approval

    def explanation(self) -> dict[str, Any]:
        """Return what the decision keeps of the proposal."""
        said = asdict(self.proposal)
        if self.action_type not in LABEL_ACTIONS:
            del said["label"]
        if self.action_type != ActionType.SNOOZE:
            del said["snooze_days"]
        return {**said, "refused": self.refused} if self.refused else said


def offered_labels(account: MailAccount) -> list[OfferedLabel]:
    """Return the labels that the model may choose, described ones first.

    Must run in the firm's scope. Mailroom's own labels are not among them, because they show a
    category, or pause the mailbox.
    """
    return [OfferedLabel(label.name, label.description) for label in _choosable(account)]


def follow_proposals(
    decision: Decision,
    proposals: Sequence[ProposedAction],
    odd: Sequence[OddProposal],
    *,
    acts: bool,
) -> None:
    """Store the model's proposals, odd ones too, with the decision; with `acts`, request them.

    Dangerous or unsure actions wait for an approval. Must run in the firm's scope.
    """
    checked = _check(decision.account, decision.message, proposals, acts=acts)
    decision.explanations["actions"] = [one.explanation() for one in checked] + [
        asdict(one) for one in odd
    ]
    decision.save(update_fields=["explanations"])
    for one in checked:
        if not one.refused:
            request_action(
                decision.message,
                one.action_type,
                one.parameters,
                decision=decision,
                confidence=one.proposal.confidence,
                asked_by_model=one.proposal.needs_approval,
            )


def _check(
    account: MailAccount, message: Message, proposals: Sequence[ProposedAction], *, acts: bool
) -> list[CheckedProposal]:
    labels = _choosable(account) if any(one.action in LABEL_ACTIONS for one in proposals) else []
    checked = [_checked(one, labels) for one in proposals]
    _refuse_repeats(account, message, checked)
    reason = "" if acts else NOT_NOW
    # Read again, because the model may have taken a minute.
    if is_discarded(Message.objects.only("labels").get(pk=message.pk)):
        reason = DISCARDED
    for one in checked:
        one.refused = one.refused or reason
    if any(one.waits and not one.refused for one in checked):
        _refuse_too_many(account, checked)
    return checked


def _choosable(account: MailAccount) -> list[MailLabel]:
    return sorted(choosable_labels(account), key=lambda label: not label.description)[:MAX_LABELS]


def _checked(proposal: ProposedAction, labels: Sequence[MailLabel]) -> CheckedProposal:
    action_type = ActionType(proposal.action)
    checked = CheckedProposal(proposal, action_type, {})
    if action_type in LABEL_ACTIONS:
        label = label_called(proposal.label, labels)
        if label is None:
            checked.refused = UNKNOWN_LABEL
            return checked
        checked.parameters = {"label": label.gmail_label_id}
    elif action_type == ActionType.SNOOZE:
        checked.parameters = {"amount": proposal.snooze_days, "units": "days"}
    try:
        check_parameters(action_type, checked.parameters)
    except ActionInvalid as error:
        checked.refused = str(error)
    return checked


def _refuse_repeats(
    account: MailAccount, message: Message, checked: Sequence[CheckedProposal]
) -> None:
    asked = set(_asked_before(account, message))
    taken: set[str] = set()
    for one in checked:
        if one.refused:
            continue
        if (one.action_type, str(one.parameters.get("label", ""))) in asked:
            one.refused = ASKED_BEFORE
        elif one.subject in taken:
            one.refused = CONTRADICTED
        taken.add(one.subject)


def _asked_before(account: MailAccount, message: Message) -> Iterable[tuple[str, str]]:
    """Yield all actions ever asked for on the message, by anybody, each with its label's id."""
    labels = MailboxLabels(account.pk)
    actions = Action.objects.filter(message=message)
    for action_type, parameters in actions.values_list("action_type", "parameters"):
        label = parameters.get("label", "") if isinstance(parameters, dict) else ""
        yield action_type, (labels.find(label) or label) if label else ""


def _refuse_too_many(account: MailAccount, checked: Sequence[CheckedProposal]) -> None:
    """Limit the open approvals, so that mail cannot make the model ask without end."""
    waiting = Approval.objects.filter(
        account=account,
        status=ApprovalStatus.PENDING,
        action__decision__isnull=False,
        action__rule__isnull=True,
    ).count()
    for one in checked:
        if one.waits and not one.refused:
            waiting += 1
            if waiting > MAX_OPEN_QUESTIONS:
                one.refused = ENOUGH_ASKED
