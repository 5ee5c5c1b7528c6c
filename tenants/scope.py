"""Which firms the running code may see.

A scope is always a database transaction: on PostgreSQL it carries the firms as a local setting
that row level security reads, and on both databases it ends with the scope. Keep it short and do
no network calls inside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.db import connection, models, transaction

from tenants.errors import MissingTenant, NotAFirm
from tenants.local_settings import DURABLE_SETTING, FIRMS_SETTING, set_local

if TYPE_CHECKING:
    from tenants.models import Firm

ALL_FIRMS_VALUE = "all"
FIRM_LABEL = "tenants.Firm"


@dataclass(frozen=True)
class Scope:
    """The visible firms; `firm_ids` None means every firm."""

    firm_ids: frozenset[int] | None
    reason: str = ""

    def allows(self, firm_id: int) -> bool:
        """Say whether rows of this firm are visible."""
        return self.firm_ids is None or firm_id in self.firm_ids

    @property
    def only_firm_id(self) -> int | None:
        """The one firm in scope, None where there are several."""
        if self.firm_ids is not None and len(self.firm_ids) == 1:
            return next(iter(self.firm_ids))
        return None

    @property
    def setting(self) -> str:
        """The scope as row level security reads it: "all" or a bigint array literal."""
        if self.firm_ids is None:
            return ALL_FIRMS_VALUE
        return "{" + ",".join(str(firm_id) for firm_id in sorted(self.firm_ids)) + "}"


_scope: ContextVar[Scope | None] = ContextVar("tenant_scope", default=None)


def current_scope() -> Scope | None:
    """Return the scope in force, None outside every scope."""
    return _scope.get()


def sees_all_firms() -> bool:
    """Say whether the rows of every firm are visible."""
    scope = _scope.get()
    return scope is not None and scope.firm_ids is None


def require_scope(what: str = "") -> Scope:
    """Return the scope in force.

    Raises:
        MissingTenant: there is none; `what` names what was asked for.
    """
    scope = _scope.get()
    if scope is None:
        raise MissingTenant(what)
    return scope


def firm_scope(
    firm: Firm | int, *, durable: bool = False, reading: bool = False
) -> AbstractContextManager[None]:
    """Work on the rows of one firm, in one transaction; for `reading` see `all_firms`.

    Raises:
        NotAFirm: it is neither a stored firm nor the id of one.
        RuntimeError: `durable` is set, and another transaction is open.
    """
    scope = _enter(Scope(frozenset([id_of_firm(firm)])), durable=durable)
    return _reading(scope) if reading else scope


def firms_scope(firms: Iterable[Firm | int]) -> AbstractContextManager[None]:
    """Work on the rows of several firms (a user's memberships), in one transaction.

    Raises:
        NotAFirm: one is neither a stored firm nor the id of one.
    """
    return _enter(Scope(frozenset(map(id_of_firm, firms))))


def id_of_firm(firm: object) -> int:
    """Return the id of a firm, given as a row or by its id, which need not exist.

    Raises:
        NotAFirm: it is neither. A user, too, has an id, and it may be that of another firm.
    """
    # True is no id, although it equals 1.
    if isinstance(firm, int) and not isinstance(firm, bool):
        return firm
    if not isinstance(firm, models.Model) or not _is_firm(firm.__class__):
        raise NotAFirm(f"must be a Firm or the id of one, not {type(firm).__name__}")
    firm_id: int | None = firm.pk
    if firm_id is None:
        raise NotAFirm("this firm is not stored: save it first")
    return firm_id


def _is_firm(model: type[models.Model]) -> bool:
    """Say whether the model is that of firms, or extends it.

    By its name, because a migration has a class of its own for the model.
    """
    labels = (base._meta.label for base in model.__mro__ if hasattr(base, "_meta"))
    return FIRM_LABEL in labels


def all_firms(reason: str, *, reading: bool = False) -> AbstractContextManager[None]:
    """Work on the rows of every firm, in one transaction; `reason` tells readers of the code why.

    On SQLite the block holds the file's only lock, unless `reading` is set; then it must not write.
    """
    if not reason:
        raise ValueError("all_firms() needs a reason")
    scope = _enter(Scope(None, reason))
    return _reading(scope) if reading else scope


def firm_or_all(firm: Firm | None, reason: str) -> AbstractContextManager[None]:
    """Work on the rows of the firm; of every firm if it is the system firm or None."""
    return all_firms(reason) if firm is None or firm.is_system else firm_scope(firm)


@contextmanager
def _reading(scope: AbstractContextManager[None]) -> Iterator[None]:
    """Enter the scope; on SQLite a transaction that begins with it takes no lock."""
    if connection.vendor != "sqlite":
        with scope:
            yield
        return
    # Connecting sets the mode, so it must come first.
    connection.ensure_connection()
    mode = connection.transaction_mode  # type: ignore[attr-defined]  # of the backend alone
    connection.transaction_mode = "DEFERRED"  # type: ignore[attr-defined]
    try:
        with scope:
            yield
    finally:
        connection.transaction_mode = mode  # type: ignore[attr-defined]


@contextmanager
def _enter(scope: Scope, *, durable: bool = False) -> Iterator[None]:
    outer = _scope.get()
    # Not the proxy `connection`, which looks the connection up at each access to an attribute.
    nested = transaction.get_connection().in_atomic_block
    token = _scope.set(scope)
    try:
        # A nested scope is a savepoint: an error caught outside it leaves the transaction usable.
        with transaction.atomic(durable=durable):
            before = outer.setting if nested and outer is not None else ""
            if durable:
                set_local(FIRMS_SETTING, scope.setting, **{DURABLE_SETTING: "on"})
            elif before != scope.setting:
                set_local(FIRMS_SETTING, scope.setting)
            yield
            if nested and before != scope.setting:
                set_local(FIRMS_SETTING, before)
    finally:
        _scope.reset(token)
