"""Firms, memberships, and the base of every model a firm owns."""

from tenants.models.audit import AuditEntry
from tenants.models.base import FirmOwned, TenantManager, TenantModel
from tenants.models.firm import SYSTEM_SLUG, ApiKey, Firm, Membership, RequestCount, Role

__all__ = [
    "SYSTEM_SLUG",
    "ApiKey",
    "AuditEntry",
    "Firm",
    "FirmOwned",
    "Membership",
    "RequestCount",
    "Role",
    "TenantManager",
    "TenantModel",
]
