"""Creates, changes and deletes reply settings, styles, templates and contacts."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final, TypeVar

from django.db import IntegrityError, transaction
from django.utils import timezone

from interfaces.stored_json import presentable
from mail.errors import ReplyInvalid
from mail.models import Contact, MailAccount, ReplySettings, ReplyStyle, ReplyTemplate
from mail.models.reply_settings import (
    MAX_SIGN_OFF_LENGTH,
    MAX_STYLE_LENGTH,
    MAX_TEMPLATE_LENGTH,
    MAX_TEMPLATE_NAME_LENGTH,
    ReplyRow,
)
from mail.services.drafting.reply_plan import AUTO_LANGUAGE, BUILT_IN
from mail.services.operation import audit, on_locked_row, target_type
from mail.services.rules.scopes import fault
from tenants.audit import SERVICE, Actor
from tenants.scope import firm_scope

MAX_RULES: Final = 20
MAX_RULE_CHARS: Final = 500
_LANGUAGE: Final = re.compile(r"[a-z]{2,3}(-[a-z]{2,4})?")
_PATTERN: Final = re.compile(r"[^\s,;<>@]+(@[^\s,;<>@]+)?")
_PLACE: Final = re.compile(r"\{ *\w+ *\}")
_PLACES: Final = ("{name}", "{subject}", "{sign_off}", "{owner}")
_EXAMPLE_KEYS: Final = {"context", "input", "draft"}

Faults = list[dict[str, str]]
Settings = dict[str, Any]
RowType = TypeVar("RowType", bound=ReplyRow)

# The settings of each kind of row, besides the mailbox.
SETTINGS: Final[dict[type[ReplyRow], tuple[str, ...]]] = {
    ReplySettings: (
        "enabled", "gather_context", "default_style", "default_language", "sign_off_name",
    ),
    ReplyStyle: ("name", "rules", "sign_off", "language", "examples"),
    ReplyTemplate: ("name", "style", "language", "text", "enabled"),
    Contact: ("pattern", "style", "language", "blocked"),
}  # fmt: skip


def create_reply_row(
    model: type[RowType], firm_id: int, *, by: Actor = SERVICE, **settings: Any
) -> RowType:
    """Store a new row of one of the four kinds.

    Raises:
        ReplyInvalid: a setting cannot be used; `errors` says which and why.
    """
    with firm_scope(firm_id):
        row = model(firm_id=firm_id)
        _fill(row, settings)
        _save(row)
        _audit("create", row, by, after=settings_of(row))
    return row


@on_locked_row
def change_reply_row(
    row: RowType, /, *, by: Actor = SERVICE, reason: str = "", **settings: Any
) -> RowType:
    """Change settings; the next draft uses them.

    Raises:
        ReplyInvalid: a setting cannot be used; `errors` says which and why.
    """
    before = settings_of(row)
    _fill(row, settings)
    row.changed_at = timezone.now()
    _save(row)
    _audit("change", row, by, reason, before=before, after=settings_of(row))
    return row


@on_locked_row
def delete_reply_row(row: ReplyRow, *, by: Actor = SERVICE, reason: str = "") -> None:
    """Delete the row; drafts that were made with it stay."""
    _audit("delete", row, by, reason, before=settings_of(row))
    row.delete()


def settings_of(row: ReplyRow) -> Settings:
    """Return the row's settings."""
    names = ("account_id", *SETTINGS[type(row)])
    return {name: getattr(row, name) for name in names}


def _fill(row: ReplyRow, settings: Settings) -> None:
    for name, value in settings.items():
        setattr(row, name, value.strip() if isinstance(value, str) else value)
    if isinstance(row, Contact):
        row.pattern = row.pattern.lower()
    faults = _CHECKS[type(row)](row) + _style_there(row)
    known = MailAccount.objects.filter(pk=row.account_id, firm_id=row.firm_id)
    if row.account_id is not None and not known.exists():
        faults.append(fault("account_id", "is no mailbox of this firm"))
    if faults:
        raise ReplyInvalid(faults)


def _style_there(row: ReplyRow) -> Faults:
    """Refuse the name of a missing style, because drafts would get the default style instead."""
    name = "default_style" if isinstance(row, ReplySettings) else "style"
    wanted = getattr(row, name, "")
    own = ReplyStyle.objects.filter(firm_id=row.firm_id, name=wanted)
    if not wanted or wanted in BUILT_IN or own.exists():
        return []
    return [fault(name, f"is no style: make it first, or name one of {', '.join(BUILT_IN)}")]


def _save(row: ReplyRow) -> None:
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError as error:
        name = {Contact: "pattern", ReplySettings: "account_id"}.get(type(row), "name")
        raise ReplyInvalid([fault(name, "already exists")]) from error


def _settings_faults(row: Any) -> Faults:
    return [
        *_text("default_style", row.default_style, MAX_STYLE_LENGTH),
        *_language("default_language", row.default_language),
        *_text("sign_off_name", row.sign_off_name, 200, empty=True),
    ]


def _style_faults(row: Any) -> Faults:
    faults = _text("name", row.name, MAX_STYLE_LENGTH)
    faults += _text("sign_off", row.sign_off, MAX_SIGN_OFF_LENGTH, empty=True)
    if row.language != AUTO_LANGUAGE:
        faults += _language("language", row.language)
    if not _are_texts(row.rules):
        most = f"{MAX_RULES} sentences of {MAX_RULE_CHARS} characters"
        faults.append(fault("rules", f"must be a list of at most {most}"))
    if not _are_examples(row.examples):
        each = f"each a text of 1 to {MAX_RULE_CHARS} characters"
        faults.append(fault("examples", f"must be a list of {{context, input, draft}}, {each}"))
    return faults


def _are_texts(values: Any) -> bool:
    return (
        isinstance(values, list)
        and len(values) <= MAX_RULES
        and all(_is_text(one) for one in values)
    )


def _is_text(value: Any) -> bool:
    """Say whether databases and pages can hold the text: escapes in JSON may be NUL or no text."""
    is_short = isinstance(value, str) and 0 < len(value) <= MAX_RULE_CHARS
    return is_short and presentable(value) == value


def _are_examples(values: Any) -> bool:
    return isinstance(values, list) and all(
        isinstance(one, dict) and set(one) == _EXAMPLE_KEYS and _are_texts([*one.values()])
        for one in values
    )


def _template_faults(row: Any) -> Faults:
    unknown = sorted(set(_PLACE.findall(str(row.text))) - set(_PLACES))
    known = ", ".join(_PLACES)
    return [
        *(fault("text", f"has {one}, which nothing fills in: use {known}") for one in unknown),
        *_text("name", row.name, MAX_TEMPLATE_NAME_LENGTH),
        *_text("style", row.style, MAX_STYLE_LENGTH, empty=True),
        *(_language("language", row.language) if row.language else []),
        *_text("text", row.text, MAX_TEMPLATE_LENGTH),
    ]


def _contact_faults(row: Any) -> Faults:
    faults = _text("style", row.style, MAX_STYLE_LENGTH, empty=True)
    if row.language:
        faults += _language("language", row.language)
    if not _PATTERN.fullmatch(row.pattern):
        faults.append(fault("pattern", "must be an address or a domain; * stands for anything"))
    if not (row.style or row.language or row.blocked):
        faults.append(fault("pattern", "changes nothing: name a style or a language, or block it"))
    return faults


_CHECKS: Final[dict[type[ReplyRow], Callable[[Any], Faults]]] = {
    ReplySettings: _settings_faults,
    ReplyStyle: _style_faults,
    ReplyTemplate: _template_faults,
    Contact: _contact_faults,
}


def _text(name: str, value: Any, most: int, *, empty: bool = False) -> Faults:
    if isinstance(value, str) and len(value) <= most and (empty or value):
        return []
    return [fault(name, f"must have {0 if empty else 1} to {most} characters")]


def _language(name: str, value: Any) -> Faults:
    if isinstance(value, str) and _LANGUAGE.fullmatch(value):
        return []
    return [fault(name, "must be a code such as en")]


def _audit(verb: str, row: ReplyRow, by: Actor, reason: str = "", **sides: Settings) -> None:
    audit(f"{target_type(type(row))}.{verb}", row, by, reason, **sides)
