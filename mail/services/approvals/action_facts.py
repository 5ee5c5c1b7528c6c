"""What an approval says of its action: which label, until when, and who proposed it."""

from __future__ import annotations

from typing import Any

from mail.models import Action
from mail.services.rules.labels import MailboxLabels


def facts_of_action(action: Action) -> list[tuple[str, str]]:
    """Return what the name of the action does not tell; for readers of the mailbox.

    Must run in the firm's scope.
    """
    parameters = action.parameters if isinstance(action.parameters, dict) else {}
    facts = []
    if label := parameters.get("label"):
        facts.append(("Label", MailboxLabels(action.account_id).name_of(label)))
    if until := parameters.get("until"):
        facts.append(("Until", str(until)))
    elif amount := parameters.get("amount"):
        facts.append(("For", f"{amount} {parameters.get('units', '')}"))
    if proposal := _proposal_of(action):
        confidence, why = proposal.get("confidence"), str(proposal.get("rationale", ""))
        facts.append(("Proposed", f"{why} (by the model, {confidence:.0%} sure)".strip()))
    return facts


def _proposal_of(action: Action) -> dict[str, Any] | None:
    """Return what the decision says of the action; None if no model proposed it."""
    if action.decision is None or action.rule_id is not None:
        return None
    label = (action.parameters or {}).get("label", "")
    name = MailboxLabels(action.account_id).name_of(label).casefold() if label else ""
    for one in action.decision.explanations.get("actions", []):
        is_it = one["action"] == action.action_type and not one.get("refused")
        if is_it and one.get("label", "").casefold() == name:
            return dict(one)
    return None
