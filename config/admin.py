"""Django's handle on the admin."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.apps import SimpleAdminConfig
from django.contrib.admin.checks import check_admin_app, check_dependencies
from django.core.checks import CheckMessage, Tags, register


class AdminConfig(SimpleAdminConfig):
    """The admin, whose pages `config.urls` loads: a worker starts a quarter faster without them."""

    default = False

    def ready(self) -> None:
        """Check the pages whenever everything is checked."""
        register(check_dependencies, Tags.admin)
        register(check_pages, Tags.admin)


def check_pages(app_configs: Any, **options: Any) -> list[CheckMessage]:
    """Report the faults of every page, also where nothing has loaded them yet."""
    admin.autodiscover()
    return list(check_admin_app(app_configs, **options))
