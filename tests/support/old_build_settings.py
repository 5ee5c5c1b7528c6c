"""Settings of an older build's worker process, which knows none of the tests' job types."""

from __future__ import annotations

from tests.support.worker_settings import *  # noqa: F403 - a settings module is its names

INSTALLED_APPS = ["django.contrib.auth", "django.contrib.contenttypes", "tenants", "jobs"]
