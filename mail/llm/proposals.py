"""The actions that a model may propose: the labels it is offered, and how its answer is read."""

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

from mail.llm.base import OddProposal, ProposedAction
from mail.text.cleaning import clean_line

MAX_PROPOSALS = 5
MAX_RATIONALE = 200
MAX_LABEL = 225
MAX_DESCRIPTION = 300
MAX_NAME = 40

NO_LIST = "The model's actions are no list."
NO_ACTION = "It is no action that the model may propose."
ODD_FIELDS = "What it says does not fit:"
TOO_MANY = f"Proposals beyond the first {MAX_PROPOSALS}, which are not looked at:"


@dataclass(frozen=True, slots=True)
class OfferedLabel:
    """A label of the mailbox's owner, with its purpose in their words."""

    name: str
    description: str = ""


def _line(limit: int) -> BeforeValidator:
    return BeforeValidator(
        lambda value: clean_line(value, limit) if isinstance(value, str) else value
    )


# The actions that each field is for; for others, models fill it with null or with anything.
_OWN_FIELDS = {"label": ("apply_label", "remove_label"), "snooze_days": ("snooze",)}


class Proposal(BaseModel):
    """One action, as the tool takes it."""

    model_config = ConfigDict(extra="ignore")

    # No action sends mail, because a mail must not be able to name a recipient.
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


def read_proposals(
    answered: Any,
) -> tuple[tuple[ProposedAction, ...], tuple[OddProposal, ...]]:
    """Return the answered actions that fit the schema, and those that do not.

    An action that does not fit leaves the others valid. It is kept, so that people can see why
    nothing was done.
    """
    if answered is None:
        return (), ()
    if not isinstance(answered, list):
        return (), (OddProposal("", NO_LIST),)
    found, odd = [], []
    for one in answered[:MAX_PROPOSALS]:
        try:
            proposal = Proposal.model_validate(one)
        except ValidationError as error:
            odd.append(_odd(one, error))
            continue
        found.append(ProposedAction(**proposal.model_dump()))
    more = len(answered) - MAX_PROPOSALS
    if more > 0:
        odd.append(OddProposal("", f"{TOO_MANY} {more}."))
    return tuple(found), tuple(odd)


def _odd(answered: Any, error: ValidationError) -> OddProposal:
    """Name the faulty fields without their values, because those may quote the mail."""
    named = answered.get("action") if isinstance(answered, dict) else ""
    action = clean_line(named, MAX_NAME) if isinstance(named, str) else ""
    fields = sorted({str(fault["loc"][0]) for fault in error.errors() if fault["loc"]})
    if not fields or "action" in fields:
        return OddProposal(action, NO_ACTION)
    return OddProposal(action, f"{ODD_FIELDS} {', '.join(fields)}.")


def labels_layer(labels: Sequence[OfferedLabel]) -> str:
    """Return the labels as JSON for the system prompt, so that no name can end the list."""
    listed = [
        {"name": label.name, "for": label.description[:MAX_DESCRIPTION]}
        if label.description
        else {"name": label.name}
        for label in labels
    ]
    return "Labels of the person, as JSON:\n\n" + json.dumps(listed, ensure_ascii=False)
