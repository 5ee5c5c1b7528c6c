"""The classifier that asks a language model: prompt, tool, and what its answer must look like."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)

from mail.llm.base import (
    DEFAULT_STYLE,
    UNKNOWN_LANGUAGE,
    Category,
    Classification,
    MailContext,
    OddProposal,
    ProposedAction,
)
from mail.llm.client import Answer, AnswerInvalid, Question, Tool
from mail.llm.prompts import message_layer, prompt, system_layers
from mail.llm.proposals import (
    MAX_PROPOSALS,
    OfferedLabel,
    Proposal,
    labels_layer,
    read_proposals,
)
from mail.rules.automated import automated_signal
from mail.text.cleaning import clean_text

MAX_TOKENS = 600
MAX_TOKENS_WITH_ACTIONS = 1500
FALLBACK_CONFIDENCE = 0.2
FALLBACK = "answer_invalid"
AUTOMATED = "automated"

MAX_TEXT = 500


def _short(value: Any) -> Any:
    """Shorten a text, so that a wordy model's verdict is valid all the same."""
    return clean_text(value, MAX_TEXT) if isinstance(value, str) else value


def _language(value: Any) -> Any:
    """Return the language of a tag such as en-GB."""
    return (
        value.strip().lower().replace("_", "-").partition("-")[0]
        if isinstance(value, str)
        else value
    )


ShortText = Annotated[
    str, StringConstraints(strip_whitespace=True, max_length=MAX_TEXT), BeforeValidator(_short)
]
Language = Annotated[str, StringConstraints(pattern=r"^[a-z]{2,3}$"), BeforeValidator(_language)]


class RecordDecision(BaseModel):
    """The arguments of the tool."""

    model_config = ConfigDict(extra="ignore")

    category: Category
    confidence: float = Field(ge=0, le=1)
    rationale: ShortText
    salient_features: list[ShortText] = Field(default_factory=list, max_length=10)
    language: Language = UNKNOWN_LANGUAGE
    style: Literal["formal", "business", "informal"] = "business"


class RecordDecisionAndActions(RecordDecision):
    """The arguments where the model may propose actions; those are read one by one."""

    actions: list[Proposal] = Field(default_factory=list, max_length=MAX_PROPOSALS)


TOOL = Tool(
    name="record_decision",
    description="Record what the conversation wants from the person.",
    schema=RecordDecision.model_json_schema(),
)
TOOL_WITH_ACTIONS = Tool(
    name="record_decision",
    description="Record what the conversation wants from the person, and what is to be done.",
    schema=RecordDecisionAndActions.model_json_schema(),
)

Ask = Callable[[Question], Answer]


class ModelClassifier:
    """Judges a message by a model; what the model answers is checked, never trusted."""

    source = "model"

    def __init__(
        self,
        ask: Ask,
        directions: Sequence[str],
        llm_rules: Sequence[str],
        labels: Sequence[OfferedLabel] | None = None,
    ) -> None:
        """With `labels`, even if the list is empty, the model may propose actions, too."""
        self._ask = ask
        self._tool = TOOL if labels is None else TOOL_WITH_ACTIONS
        base = [prompt("classify")]
        if labels is not None:
            base += [prompt("actions"), labels_layer(labels)]
        self._system = system_layers("\n\n".join(base), directions, llm_rules)

    def classify(self, mail: MailContext) -> Classification:
        """Judge one message.

        Raises:
            ModelError: the model did not answer.
        """
        automated = automated_signal(mail.sender, mail.headers) is not None
        if mail.user_wrote_last or mail.is_own:
            return _verdict(
                Category.WAITING, 0.95, "You wrote last.", ["own_last_message"], automated
            )
        try:
            decision, proposals, odd_proposals = self._decide(mail)
        except AnswerInvalid:
            # Mail that may need an answer must not be hidden because the model failed.
            category = Category.FYI if automated else Category.NEEDS_RESPONSE
            why = "The model gave no usable answer."
            return _verdict(category, FALLBACK_CONFIDENCE, why, [FALLBACK], automated)
        category, features = decision.category, list(decision.salient_features)
        if automated and category == Category.NEEDS_RESPONSE:
            category, features = Category.FYI, [*features, AUTOMATED]
        return _verdict(
            category,
            decision.confidence,
            decision.rationale,
            features,
            automated,
            language=decision.language,
            style=decision.style,
            proposals=proposals,
            odd_proposals=odd_proposals,
        )

    def _decide(
        self, mail: MailContext
    ) -> tuple[RecordDecision, tuple[ProposedAction, ...], tuple[OddProposal, ...]]:
        tool = self._tool
        user = f"The message, as JSON:\n\n{message_layer(mail)}\n\nCall {tool.name} now."
        most = MAX_TOKENS if tool is TOOL else MAX_TOKENS_WITH_ACTIONS
        answer = self._ask(Question(self._system, user, tool, most))
        try:
            decision = RecordDecision.model_validate(answer.arguments)
        except ValidationError:
            raise AnswerInvalid("the call does not fit the schema", answer) from None
        if tool is TOOL:
            return decision, (), ()
        return decision, *read_proposals(answer.arguments.get("actions"))


def _verdict(
    category: Category,
    confidence: float,
    rationale: str,
    features: list[str],
    automated: bool,
    **given: Any,
) -> Classification:
    return Classification(
        category=category,
        confidence=confidence,
        rationale=rationale,
        features=tuple(features),
        language=given.get("language", UNKNOWN_LANGUAGE),
        style=given.get("style", DEFAULT_STYLE),
        automated=automated,
        proposals=given.get("proposals", ()),
        odd_proposals=given.get("odd_proposals", ()),
    )
