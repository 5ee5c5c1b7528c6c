"""Firms, memberships, and the base of every model a firm owns."""

from tenants.models.api_key import ApiKey
from tenants.models.audit import AuditEntry
from tenants.models.base import FirmOwned, TenantManager, TenantModel
from tenants.models.firm import SYSTEM_SLUG, Firm
from tenants.models.membership import Membership, Role
from tenants.models.request_count import RequestCount

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
