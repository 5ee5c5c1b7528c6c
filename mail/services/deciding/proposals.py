"""What a model proposes beside its verdict: checked against what the mailbox has, then asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from mail.errors import ActionInvalid
from mail.llm.base import ProposedAction
from mail.llm.proposals import OfferedLabel
from mail.models import Action, ActionType, Decision, MailAccount, MailLabel, Message
from mail.services.actions.actions import request_action
from mail.services.actions.types import LABEL_ACTIONS, check_parameters
from mail.services.timelines.threads import is_discarded

MAX_LABELS = 200
UNKNOWN_LABEL = "It names no label that the model may choose."


@dataclass(frozen=True)
class CheckedProposal:
    """A proposal with the parameters of its action, or why it is left alone."""

    proposal: ProposedAction
    parameters: dict[str, Any]
    refused: str = ""

    def explanation(self) -> dict[str, Any]:
        """Return what the decision says of it."""
        said = {name: value for name, value in asdict(self.proposal).items() if value is not None}
        if self.proposal.action not in LABEL_ACTIONS:
            del said["label"]
        return {**said, "refused": self.refused} if self.refused else said


def offered_labels(account: MailAccount) -> list[OfferedLabel]:
    """Return the labels that the model may choose. Must run in the firm's scope.

    Those of Mailroom's own show a category and a state, and are nobody's to choose.
    """
    rows = _choosable(account).order_by("name", "pk")[:MAX_LABELS]
    return [
        OfferedLabel(name, description)
        for name, description in rows.values_list("name", "description")
    ]


def check_proposals(
    account: MailAccount, proposals: Sequence[ProposedAction]
) -> list[CheckedProposal]:
    """Say of each proposal what it would do. Must run in the firm's scope."""
    ids: dict[str, str] = {}
    if any(one.action in LABEL_ACTIONS for one in proposals):
        rows = _choosable(account).values_list("name", "gmail_label_id")
        ids = {name.casefold(): label_id for name, label_id in rows}
    return [_checked(one, ids) for one in proposals]


def request_proposals(decision: Decision, proposals: Sequence[CheckedProposal]) -> None:
    """Ask for what a model proposed; what is dangerous or unsure waits for a yes.

    Must run in the firm's scope, in a mailbox that is acted in. What was asked for on the message
    already, by whomever, is not asked for again; what is in the trash or among spam is left alone.
    """
    message = decision.message
    if is_discarded(message):
        return
    for one in proposals:
        action_type = ActionType(one.proposal.action)
        if one.refused or _was_asked(message, action_type, one.parameters):
            continue
        request_action(
            message,
            action_type,
            one.parameters,
            decision=decision,
            confidence=one.proposal.confidence,
            asked_by_model=one.proposal.needs_approval,
        )


def _choosable(account: MailAccount) -> Any:
    return MailLabel.objects.filter(account=account, key="", available_to_classifier=True)


def _checked(proposal: ProposedAction, ids: dict[str, str]) -> CheckedProposal:
    action_type = ActionType(proposal.action)
    parameters: dict[str, Any] = {}
    if action_type in LABEL_ACTIONS:
        label_id = ids.get(proposal.label.casefold())
        if label_id is None:
            return CheckedProposal(proposal, {}, UNKNOWN_LABEL)
        parameters = {"label": label_id}
    elif action_type == ActionType.SNOOZE:
        parameters = {"amount": proposal.snooze_days, "units": "days"}
    try:
        check_parameters(action_type, parameters)
    except ActionInvalid as error:
        return CheckedProposal(proposal, {}, str(error))
    return CheckedProposal(proposal, parameters)


def _was_asked(message: Message, action_type: ActionType, parameters: dict[str, Any]) -> bool:
    asked = Action.objects.filter(message=message, action_type=action_type)
    return any(one == parameters for one in asked.values_list("parameters", flat=True))
