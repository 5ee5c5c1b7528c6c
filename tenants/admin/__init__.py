"""Firms, members and users in the admin."""

from tenants.admin.firm import FirmAdmin
from tenants.admin.membership import MembershipAdmin
from tenants.admin.user import UserAdmin

__all__ = ["FirmAdmin", "MembershipAdmin", "UserAdmin"]
