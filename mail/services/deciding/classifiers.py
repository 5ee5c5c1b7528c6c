"""Chooses the classifier of a mailbox: a model, if one is configured, else the offline one."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from mail.llm.base import Classification, Classifier, MailContext
from mail.llm.client import ModelClient
from mail.llm.model_classifier import ModelClassifier
from mail.llm.offline import OfflineClassifier
from mail.llm.proposals import OfferedLabel
from mail.models import CallType, Direction, DirectionKind, MailAccount
from mail.services.deciding.budget import BudgetSpent
from mail.services.deciding.model_calls import ask_model, configured_client
from mail.services.deciding.proposals import offered_labels
from mail.services.rules.reach import Reach
from mail.services.rules.scopes import holds_for
from tenants.scope import firm_scope


def asks_a_model() -> bool:
    """Say whether a language model judges: then each message waits for the network by itself."""
    return configured_client() is not None


def classifier_for(account: MailAccount, *, message_id: UUID, job_id: UUID) -> Classifier:
    """Return the classifier for a message of this mailbox."""
    client = configured_client()
    if client is None:
        return OfflineClassifier()
    return BudgetedClassifier(client, account, message_id=message_id, job_id=job_id)


class BudgetedClassifier:
    """Asks the model, or the offline classifier if the budget is spent; `source` says which."""

    def __init__(
        self, client: ModelClient, account: MailAccount, *, message_id: UUID, job_id: UUID
    ) -> None:
        self._client = client
        self._account = account
        self._ids = {"message_id": message_id, "job_id": job_id}
        # The source of the last verdict.
        self.source = ModelClassifier.source

    def classify(self, mail: MailContext) -> Classification:
        """Judge one message.

        Raises:
            ModelError: the model did not answer.
        """
        told = told_to_the_classifier(self._account, mail.sender.key)
        model = ModelClassifier(
            lambda question: ask_model(
                self._client, question, self._account, call_type=CallType.CLASSIFY, **self._ids
            ),
            told.directions,
            told.llm_rules,
            told.labels,
        )
        try:
            return model.classify(mail)
        except BudgetSpent:
            self.source = OfflineClassifier.source
            return OfflineClassifier().classify(mail)


@dataclass(frozen=True)
class Told:
    """What people told the model for a sender's mail; without `labels` it may propose no action."""

    directions: list[str]
    llm_rules: list[str]
    labels: list[OfferedLabel] | None


def told_to_the_model(account: MailAccount, sender_address: str) -> tuple[list[str], list[str]]:
    """Return the directions and the model's rules that apply to a sender, each text once."""
    with firm_scope(account.firm_id):
        found = _found(account, sender_address)
    return _texts(found, DirectionKind.DIRECTION), _texts(found, DirectionKind.LLM_RULE)


def told_to_the_classifier(account: MailAccount, sender_address: str) -> Told:
    """Return what the model is told that judges a sender's mail.

    It may propose actions if there is a direction, a rule, or a label that somebody described. In a
    private mailbox only directions and rules of people who may read it allow actions: if it may
    propose any, the model is not told those of others.
    """
    with firm_scope(account.firm_id):
        found = _found(account, sender_address)
        labels = offered_labels(account)
        reach = Reach(account)
        acting = [row for row in found if reach.is_readers(row.enabled_by_id)]
    may_act = bool(acting) or any(label.description for label in labels)
    told = acting if may_act else found
    return Told(
        _texts(told, DirectionKind.DIRECTION),
        _texts(told, DirectionKind.LLM_RULE),
        labels if may_act else None,
    )


def _found(account: MailAccount, sender_address: str) -> list[Direction]:
    rows = Direction.objects.filter(holds_for(account, sender_address), enabled=True)
    return list(rows.order_by("created_at", "pk"))


def _texts(found: list[Direction], kind: DirectionKind) -> list[str]:
    unlike: dict[str, str] = {}
    for row in found:
        if row.kind == kind:
            unlike.setdefault(" ".join(row.text.split()).casefold(), row.text)
    return list(unlike.values())
