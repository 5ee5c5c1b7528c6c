"""The thirteen actions: what each takes as parameters, changes, and needs to be undone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from django.utils import timezone
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from jobs.errors import Fault
from jobs.registry.payload import schema_faults
from mail.errors import ActionInvalid
from mail.models import MAX_ADDRESS_LENGTH, MAX_LABEL_LENGTH, ActionType

# Gmail sets these labels itself and refuses to have them changed.
UNCHANGEABLE_LABELS = frozenset({"SENT", "DRAFT"})
LONGEST_SNOOZE = timedelta(days=365)
MAX_RECIPIENTS = 100
MAX_TEXT_LENGTH = 100_000
MAX_SUBJECT_LENGTH = 900


def _changeable_label(label: str) -> str:
    label = _one_line(label.strip())
    if not label:
        raise PydanticCustomError("required", "must be the name or id of a label")
    if label.upper() in UNCHANGEABLE_LABELS:
        raise PydanticCustomError("unchangeable", "is a label that Gmail lets nobody change")
    return label


def _one_address(text: str) -> str:
    local, _, domain = text.rpartition("@")
    odd = any(
        character.isspace() or character in ",;<>" or not character.isprintable()
        for character in text
    )
    if not local or not domain or odd:
        raise PydanticCustomError("not_an_address", "must be one mail address")
    return text


def _one_line(text: str) -> str:
    if not text.isprintable():
        raise PydanticCustomError("not_one_line", "must be one line without control characters")
    return text


def _without_nul(text: str) -> str:
    if "\x00" in text:
        raise PydanticCustomError("nul", "contains NUL, which mail may not contain")
    return text


def _listed(value: object) -> object:
    return [value] if isinstance(value, str) else value


Address = Annotated[str, Field(max_length=MAX_ADDRESS_LENGTH), AfterValidator(_one_address)]
Addresses = Annotated[list[Address], Field(max_length=MAX_RECIPIENTS), BeforeValidator(_listed)]
Line = Annotated[str, Field(max_length=MAX_SUBJECT_LENGTH), AfterValidator(_one_line)]
Text = Annotated[str, Field(max_length=MAX_TEXT_LENGTH), AfterValidator(_without_nul)]


class Parameters(BaseModel):
    """An action without parameters."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class LabelParameters(Parameters):
    """A label by its name (any case) or id."""

    label: Annotated[str, Field(max_length=MAX_LABEL_LENGTH), AfterValidator(_changeable_label)]


class DeleteParameters(Parameters):
    """Whether to delete for good, if the mailbox permits it; otherwise it goes to the trash."""

    permanently: bool = False


class SnoozeParameters(Parameters):
    """A moment (RFC 3339), or a time from the request on."""

    until: str | None = None
    amount: Annotated[int, Field(gt=0)] | None = None
    units: Literal["minutes", "hours", "days"] | None = None


class ForwardParameters(Parameters):
    """To whom to pass a message on, and with what."""

    to: Annotated[Addresses, Field(min_length=1)]
    cc: Addresses = []
    bcc: Addresses = []
    note: Text = ""
    subject: Line = ""
    include_original: Literal["inline", "attachment"] = "inline"


class AutoReplyParameters(Parameters):
    """What to answer; `body` is another name of `body_plain`."""

    body: Text = ""
    body_plain: Text = ""
    body_html: Text = ""


@dataclass(frozen=True)
class ActionDeclaration:
    """What is known of an action before it is asked for.

    `adds` and `removes` are the labels that Gmail changes with the action, beside the label it
    names; other changes of the message are not the action's. `inverse` is what undoes it.
    """

    parameters: type[Parameters] = Parameters
    adds: frozenset[str] = frozenset()
    removes: frozenset[str] = frozenset()
    inverse: str = "none"
    irreversible: str = ""


_IN_TRASH = frozenset({"TRASH"})
_ELSEWHERE = frozenset({"INBOX", "SPAM"})

ACTIONS: Mapping[ActionType, ActionDeclaration] = {
    ActionType.ARCHIVE: ActionDeclaration(removes=frozenset({"INBOX"}), inverse="apply_label"),
    ActionType.APPLY_LABEL: ActionDeclaration(LabelParameters, inverse="remove_label"),
    ActionType.REMOVE_LABEL: ActionDeclaration(LabelParameters, inverse="apply_label"),
    ActionType.MARK_READ: ActionDeclaration(removes=frozenset({"UNREAD"}), inverse="mark_unread"),
    ActionType.MARK_UNREAD: ActionDeclaration(adds=frozenset({"UNREAD"}), inverse="mark_read"),
    ActionType.STAR: ActionDeclaration(adds=frozenset({"STARRED"}), inverse="unstar"),
    ActionType.UNSTAR: ActionDeclaration(removes=frozenset({"STARRED"}), inverse="star"),
    ActionType.TRASH: ActionDeclaration(adds=_IN_TRASH, removes=_ELSEWHERE, inverse="restore"),
    ActionType.RESTORE: ActionDeclaration(adds=_ELSEWHERE, removes=_IN_TRASH, inverse="trash"),
    ActionType.DELETE: ActionDeclaration(
        DeleteParameters, adds=_IN_TRASH, removes=_ELSEWHERE, inverse="restore"
    ),
    ActionType.SNOOZE: ActionDeclaration(
        SnoozeParameters, removes=frozenset({"INBOX"}), inverse="unsnooze"
    ),
    ActionType.FORWARD: ActionDeclaration(
        ForwardParameters, irreversible="A message that was sent cannot be called back."
    ),
    ActionType.AUTO_REPLY: ActionDeclaration(
        AutoReplyParameters, irreversible="A message that was sent cannot be called back."
    ),
}
LABEL_ACTIONS = frozenset({ActionType.APPLY_LABEL, ActionType.REMOVE_LABEL})
# The actions that are one change of labels and need no other call of Gmail's.
LABEL_CHANGES = LABEL_ACTIONS | {
    ActionType.ARCHIVE,
    ActionType.MARK_READ,
    ActionType.MARK_UNREAD,
    ActionType.STAR,
    ActionType.UNSTAR,
}


def check_parameters(
    action_type: ActionType, parameters: Mapping[str, Any], *, requested_at: datetime | None = None
) -> Parameters:
    """Return the parameters as the action's model.

    `requested_at` (now by default) is the moment from which a snooze counts.

    Raises:
        ActionInvalid: `faults` lists field, code and message of each.
    """
    declared = ACTIONS.get(action_type)
    if declared is None:
        raise ActionInvalid(action_type, [Fault("action_type", "unknown", "is not asked for")])
    try:
        model = declared.parameters.model_validate(dict(parameters))
    except ValidationError as error:
        raise ActionInvalid(action_type, schema_faults(error)) from None
    if isinstance(model, SnoozeParameters):
        snooze_until(model, requested_at or timezone.now())
    elif isinstance(model, AutoReplyParameters) and not any(model.model_dump().values()):
        raise _invalid(action_type, "body", "required", "must say what to answer")
    return model


def snooze_until(parameters: SnoozeParameters, requested_at: datetime) -> datetime:
    """Return when the message comes back.

    Raises:
        ActionInvalid: no moment, two moments, or one that is past or more than 365 days away.
    """
    moment, field = _moment(parameters, requested_at)
    if moment <= requested_at:
        raise _invalid(ActionType.SNOOZE, field, "past", "must be in the future")
    if moment - requested_at > LONGEST_SNOOZE:
        raise _invalid(ActionType.SNOOZE, field, "too_far", "must be within 365 days")
    return moment


def _moment(parameters: SnoozeParameters, requested_at: datetime) -> tuple[datetime, str]:
    until, amount, units = parameters.until, parameters.amount, parameters.units
    if until is not None:
        if amount is not None or units is not None:
            raise _invalid(
                ActionType.SNOOZE,
                "until",
                "conflict",
                "must be given, or amount and units, and not both",
            )
        return _parse(until), "until"
    if amount is None and units is None:
        raise _invalid(
            ActionType.SNOOZE,
            "until",
            "required",
            "must be given, or amount and units, and not both",
        )
    if amount is None or units is None:
        missing = "amount" if amount is None else "units"
        raise _invalid(
            ActionType.SNOOZE, missing, "required", "is missing: amount and units go together"
        )
    try:
        return requested_at + timedelta(**{units: amount}), "amount"
    except OverflowError:
        raise _invalid(ActionType.SNOOZE, "amount", "too_far", "must be within 365 days") from None


def _parse(text: str) -> datetime:
    try:
        # `fromisoformat` accepts any character between date and time, even NUL.
        moment = datetime.fromisoformat(text if text.isprintable() else "")
        if moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    message = "must be a date and time with its offset, as 2026-12-24T18:00:00+01:00"
    raise _invalid(ActionType.SNOOZE, "until", "not_a_moment", message)


def _invalid(action_type: ActionType, field: str, code: str, message: str) -> ActionInvalid:
    return ActionInvalid(action_type, [Fault(field, code, message)])
