"""What operations on rows share: the locked rows as they are stored, names, and the audit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from mail.errors import FaultyInput, RowGone
from mail.models import Action, MailAccount
from mail.services.rules.scopes import fault
from tenants.audit import Actor, record_operation
from tenants.models import FirmOwned
from tenants.scope import firm_scope

RowType = TypeVar("RowType", bound=FirmOwned)
P = ParamSpec("P")
T = TypeVar("T")

# All other models are named in the log by their verbose name.
_TARGET_TYPES: dict[type[Any], str] = {MailAccount: "mailbox", Action: "mail_action"}


def locked_row(row: RowType) -> RowType:
    """Return the row as it is stored, locked. Must run in the firm's scope.

    Raises:
        RowGone: somebody deleted it meanwhile.
    """
    # `no_key` lets others insert rows that refer to it; they may hold locks that the caller needs.
    locked = type(row).objects.select_for_update(no_key=True)
    stored: RowType | None = locked.filter(pk=row.pk).first()
    if stored is None:
        raise RowGone(f"The {row._meta.verbose_name} is deleted.")
    return stored


def on_locked_row(
    operation: Callable[Concatenate[RowType, P], T],
) -> Callable[Concatenate[RowType, P], T]:
    """Run an operation on the row, read anew and locked, in the scope of its firm.

    Raises:
        RowGone: somebody deleted it meanwhile.
    """

    @wraps(operation)
    def run(row: RowType, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with firm_scope(row.firm_id):
            return operation(locked_row(row), *args, **kwargs)

    return run


def set_changed(
    row: Any, before: Mapping[str, Any], settings: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Set what differs from `before`; return only that, as it was and as it is now."""
    now = {name: value for name, value in settings.items() if value != before[name]}
    for name, value in now.items():
        setattr(row, name, value)
    return {name: before[name] for name in now}, now


def locked_ids(rows: QuerySet[Any]) -> list[UUID]:
    """Lock the rows in the order of their ids, as everybody who locks several does; return the ids.

    An UPDATE alone would lock them in any order. Must run in the firm's scope.
    """
    locked = rows.select_for_update(of=("self",), no_key=True).order_by("pk")
    return list(locked.values_list("pk", flat=True))


def save_named(row: Any, invalid: type[FaultyInput], what: str) -> None:
    """Save a row whose name is its own in the firm.

    Raises:
        FaultyInput: another row has the name; the error is of the type `invalid`.
    """
    try:
        with transaction.atomic():
            row.save()
    except IntegrityError:
        others = type(row).objects.filter(name=row.name).exclude(pk=row.pk)
        if not others.exists():
            raise
        raise invalid([fault("name", f"is the name of another {what}")]) from None


def audit(
    operation: str,
    row: Any,
    by: Actor,
    reason: str = "",
    *,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
) -> None:
    """Append the operation to the audit log of the row's firm, in the operation's transaction."""
    record_operation(
        by,
        operation,
        firm_id=row.firm_id,
        target=(target_type(type(row)), row.pk),
        reason=reason,
        before=_plain(before or {}),
        after=_plain(after or {}),
    )


def target_type(model: type[Any]) -> str:
    """Return the name of the model's rows in the audit log."""
    return _TARGET_TYPES.get(model) or str(model._meta.verbose_name).replace(" ", "_")


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: str(value) if isinstance(value, UUID) else value for name, value in values.items()
    }
