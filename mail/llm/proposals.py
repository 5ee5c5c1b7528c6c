"""The actions that a model may propose beside its verdict: what it is offered, what it answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from mail.llm.base import ProposedAction
from mail.text.cleaning import clean_line

MAX_PROPOSALS = 5
MAX_RATIONALE = 200
MAX_LABEL = 225
MAX_DESCRIPTION = 300


@dataclass(frozen=True, slots=True)
class OfferedLabel:
    """A label of the person's, and what it is for, in their words."""

    name: str
    description: str = ""


def _line(limit: int) -> BeforeValidator:
    return BeforeValidator(
        lambda value: clean_line(value, limit) if isinstance(value, str) else value
    )


# Which field is for which actions; models fill in the others with null, or with anything.
_OWN_FIELDS = {"label": ("apply_label", "remove_label"), "snooze_days": ("snooze",)}


class Proposal(BaseModel):
    """One action, as the tool takes it."""

    model_config = ConfigDict(extra="ignore")

    # Nothing that sends: no mail may name a recipient.
    action: Literal[
        "apply_label",
        "remove_label",
        "archive",
        "mark_read",
        "mark_unread",
        "star",
        "unstar",
        "snooze",
        "trash",
        "delete",
    ]
    label: Annotated[
        str,
        Field(max_length=MAX_LABEL, description="Of the list, for label actions."),
        _line(MAX_LABEL),
    ] = ""
    snooze_days: Annotated[int | None, Field(ge=1, le=365, description="For snooze.")] = None
    confidence: float = Field(ge=0, le=1)
    needs_approval: bool = False
    rationale: Annotated[str, Field(max_length=MAX_RATIONALE), _line(MAX_RATIONALE)] = ""

    @model_validator(mode="before")
    @classmethod
    def _without_what_says_nothing(cls, given: Any) -> Any:
        if not isinstance(given, dict):
            return given
        return {
            name: value
            for name, value in given.items()
            if value is not None
            and given.get("action") in _OWN_FIELDS.get(name, (given.get("action"),))
        }


def read_proposals(answered: Any) -> tuple[ProposedAction, ...]:
    """Return those of the answered actions that fit the schema: an odd one spoils no other."""
    found = []
    for one in answered[:MAX_PROPOSALS] if isinstance(answered, list) else []:
        try:
            proposal = Proposal.model_validate(one)
        except ValidationError:
            continue
        found.append(ProposedAction(**proposal.model_dump()))
    return tuple(found)


def labels_layer(labels: Sequence[OfferedLabel]) -> str:
    """Return the labels as JSON, for the system prompt: no name can end the list."""
    listed = [
        {"name": label.name, "for": label.description[:MAX_DESCRIPTION]}
        if label.description
        else {"name": label.name}
        for label in labels
    ]
    return "Labels of the person, as JSON:\n\n" + json.dumps(listed, ensure_ascii=False)
