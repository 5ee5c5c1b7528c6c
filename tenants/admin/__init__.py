"""Firms, members, their API keys, the audit log and users in the admin."""

from tenants.admin.api_key import ApiKeyAdmin
from tenants.admin.audit import AuditEntryAdmin
from tenants.admin.firm import FirmAdmin
from tenants.admin.membership import MembershipAdmin
from tenants.admin.user import UserAdmin

__all__ = ["ApiKeyAdmin", "AuditEntryAdmin", "FirmAdmin", "MembershipAdmin", "UserAdmin"]
