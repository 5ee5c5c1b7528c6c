"""What a question says of an action: the label it would put on, until when, and who wants it."""

from __future__ import annotations

from typing import Any

from mail.models import Action, MailLabel


def facts_of_action(action: Action) -> list[tuple[str, str]]:
    """Return what the action's kind leaves open; for readers of the mailbox.

    Must run in the firm's scope.
    """
    parameters = action.parameters if isinstance(action.parameters, dict) else {}
    facts = []
    if label := parameters.get("label"):
        facts.append(("Label", label_name(action.account_id, label)))
    if until := parameters.get("until"):
        facts.append(("Until", str(until)))
    elif amount := parameters.get("amount"):
        facts.append(("For", f"{amount} {parameters.get('units', '')}"))
    if proposal := _proposal_of(action):
        confidence, why = proposal.get("confidence"), str(proposal.get("rationale", ""))
        facts.append(("Proposed", f"{why} (by the model, {confidence:.0%} sure)".strip()))
    return facts


def label_name(account_id: Any, label: str) -> str:
    """Return the name of the label with this id, what was given where there is none."""
    found = MailLabel.objects.filter(account_id=account_id, gmail_label_id=label)
    return found.values_list("name", flat=True).first() or label


def _proposal_of(action: Action) -> dict[str, Any] | None:
    """Return what the decision says of the action, None where no model proposed it."""
    if action.decision is None or action.rule_id is not None:
        return None
    label = (action.parameters or {}).get("label", "")
    name = label_name(action.account_id, label).casefold() if label else ""
    for one in action.decision.explanations.get("actions", []):
        is_it = one["action"] == action.action_type and not one.get("refused")
        if is_it and one.get("label", "").casefold() == name:
            return dict(one)
    return None
