"""Firms, members, their API keys, the audit log and users in the admin.

Where Unfold is not installed, the stock admin has a simple page of firms. Only if
TENANTS_USER_ADMIN is set do the pages of users here replace the project's own, and Groups.
"""

from django.apps import apps
from django.conf import settings

if apps.is_installed("unfold"):
    from tenants.admin import api_key, audit, firm, user  # noqa: F401 - register pages

    if getattr(settings, "TENANTS_USER_ADMIN", False):
        user.replace_user_admin()
else:
    from tenants.admin import plain  # noqa: F401
