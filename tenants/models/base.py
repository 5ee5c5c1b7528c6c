"""The base of every model a firm owns, with a manager that fails closed."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

from django.db import connection, models
from django.db.models.base import ModelBase
from uuid_utils.compat import uuid7

from tenants.errors import MissingTenant, TenantMismatch
from tenants.scope import current_scope, require_scope

M = TypeVar("M", bound="FirmOwned")


class TenantManager(models.Manager[M]):
    """Sees the rows of the firms in scope; without a scope it raises MissingTenant."""

    def get_queryset(self) -> models.QuerySet[M]:
        """Return the visible rows."""
        scope = require_scope(self.model.__name__)
        rows = super().get_queryset()
        return rows if scope.firm_ids is None else rows.filter(firm_id__in=scope.firm_ids)

    def unscoped(self, reason: str) -> models.QuerySet[M]:
        """Return rows of every firm, for the few places that look a row up by a unique id."""
        if not reason:
            raise ValueError("unscoped() needs a reason")
        return super().get_queryset()

    def bulk_create(self, objs: Any, *args: Any, **kwargs: Any) -> list[M]:
        """Create many rows, each checked against the scope."""
        rows = list(objs)
        for row in rows:
            row.claim_for_scope()
        return super().bulk_create(rows, *args, **kwargs)


class BaseQuerySet(models.QuerySet[M]):
    """Says that a scope is missing where row level security therefore hides a row."""

    def get(self, *args: Any, **kwargs: Any) -> M:
        """Return the one row.

        Raises:
            MissingTenant: no scope, and on PostgreSQL row level security therefore hides the row.
        """
        try:
            return super().get(*args, **kwargs)
        except self.model.DoesNotExist:
            # On SQLite nothing hides rows, so this one is gone.
            if connection.vendor == "postgresql":
                require_scope(self.model.__name__)
            raise


BaseManager = models.Manager.from_queryset(BaseQuerySet)


@cache
def _base_manager_of(model: type[models.Model]) -> models.Manager[Any]:
    manager: models.Manager[Any] = BaseManager()
    manager.name, manager.model, manager.auto_created = "_base_manager", model, True
    return manager


class FirmOwnedBase(ModelBase):
    """Gives each model the manager with which Django reads a row that it knows by its id.

    That is a row to which a foreign key refers, or that `refresh_from_db` reads again. The option
    `base_manager_name` would put the manager into the migrations of every model.
    """

    @property
    def _base_manager(cls) -> models.Manager[Any]:  # noqa: N805 - the class is a metaclass
        return _base_manager_of(cls)


class FirmOwned(models.Model, metaclass=FirmOwnedBase):
    """A row that belongs to one firm."""

    firm = models.ForeignKey(
        "tenants.Firm", on_delete=models.CASCADE, related_name="+", db_index=False
    )

    objects: TenantManager[Any] = TenantManager()

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> None:
        """Save, after the check of `claim_for_scope`."""
        self.claim_for_scope()
        super().save(*args, **kwargs)

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        """Delete the row.

        Raises:
            MissingTenant: no scope; on PostgreSQL row level security would let nothing be deleted.
        """
        require_scope(type(self).__name__)
        return super().delete(*args, **kwargs)

    def claim_for_scope(self) -> None:
        """Take the firm in scope when none is set, and refuse a firm out of scope.

        Raises:
            MissingTenant: no scope, or several firms in it and none set on the row.
            TenantMismatch: the row's firm is not in scope.
        """
        scope = current_scope()
        if scope is None:
            raise MissingTenant(type(self).__name__)
        firm_id: int | None = self.firm_id
        if firm_id is None:
            if scope.only_firm_id is None:
                raise MissingTenant(f"{type(self).__name__} without a firm")
            self.firm_id = scope.only_firm_id
        elif not scope.allows(firm_id):
            raise TenantMismatch(
                f"{type(self).__name__} of firm {firm_id}: that firm is not in scope"
            )


class TenantModel(FirmOwned):
    """A firm-owned row with a UUIDv7 primary key."""

    id = models.UUIDField(primary_key=True, default=uuid7, editable=False)

    class Meta:
        abstract = True
