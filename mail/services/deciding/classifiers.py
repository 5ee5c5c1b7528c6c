"""Which classifier judges a mailbox's mail: a model, where one is configured, else the offline one."""

from __future__ import annotations

from uuid import UUID

from mail.llm.base import Classification, Classifier, MailContext
from mail.llm.client import ModelClient
from mail.llm.model_classifier import ModelClassifier
from mail.llm.offline import OfflineClassifier
from mail.models import CallType, Direction, DirectionKind, MailAccount
from mail.services.deciding.budget import BudgetSpent
from mail.services.deciding.model_calls import ask_model, configured_client
from mail.services.rules.scopes import holds_for
from tenants.scope import firm_scope


def asks_a_model() -> bool:
    """Say whether a language model judges: each message then waits for the network, on its own."""
    return configured_client() is not None


def classifier_for(account: MailAccount, *, message_id: UUID, job_id: UUID) -> Classifier:
    """Return the classifier for a message of this mailbox."""
    client = configured_client()
    if client is None:
        return OfflineClassifier()
    return BudgetedClassifier(client, account, message_id=message_id, job_id=job_id)


class BudgetedClassifier:
    """Asks the model; when the firm's budget is spent, the offline classifier, and says so."""

    def __init__(
        self, client: ModelClient, account: MailAccount, *, message_id: UUID, job_id: UUID
    ) -> None:
        self._client = client
        self._account = account
        self._ids = {"message_id": message_id, "job_id": job_id}
        # Whose verdict the last one was.
        self.source = ModelClassifier.source

    def classify(self, mail: MailContext) -> Classification:
        """Judge one message.

        Raises:
            ModelError: the model did not answer.
        """
        directions, llm_rules = told_to_the_model(self._account, mail.sender.key)
        model = ModelClassifier(
            lambda question: ask_model(
                self._client, question, self._account, call_type=CallType.CLASSIFY, **self._ids
            ),
            directions,
            llm_rules,
        )
        try:
            return model.classify(mail)
        except BudgetSpent:
            self.source = OfflineClassifier.source
            return OfflineClassifier().classify(mail)


def told_to_the_model(account: MailAccount, sender_address: str) -> tuple[list[str], list[str]]:
    """Return the directions and the rules for the model that hold for a sender, each text once."""
    with firm_scope(account.firm_id):
        rows = Direction.objects.filter(holds_for(account, sender_address), enabled=True)
        found = list(rows.order_by("created_at", "pk").values_list("kind", "text"))
    return _texts(found, DirectionKind.DIRECTION), _texts(found, DirectionKind.LLM_RULE)


def _texts(found: list[tuple[str, str]], kind: DirectionKind) -> list[str]:
    unlike: dict[str, str] = {}
    for one, text in found:
        if one == kind:
            unlike.setdefault(" ".join(text.split()).casefold(), text)
    return list(unlike.values())
