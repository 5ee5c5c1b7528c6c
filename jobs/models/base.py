"""The base of the queue's firm-owned tables."""

from __future__ import annotations

from django.db import models

from tenants.models import TenantModel


class QueueModel(TenantModel):
    """A firm-owned row without a database constraint on the firm.

    Workers write these rows all the time; a constraint would lock the firm's row each time.
    """

    firm = models.ForeignKey(
        "tenants.Firm",
        on_delete=models.DO_NOTHING,
        db_constraint=False,
        db_index=False,
        related_name="+",
    )

    class Meta:
        abstract = True
