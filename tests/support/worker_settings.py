"""Settings of the worker processes that tests start: the queue, and the tests' job types."""

from __future__ import annotations

import os

from config.settings import *  # noqa: F403 - a settings module is its names

# Fewer apps are imported, so a worker starts in half the time.
INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "tenants",
    "jobs",
    "tests.support.testjobs",
    "tests.support.effectjobs",
    *(["tests.support.atstart"] if "AT_START" in os.environ else []),
]
MIDDLEWARE = []
ROOT_URLCONF = "tests.support.no_urls"
# Alerts are rare, so that no alert's job is among those that a test counts.
ALERT_INTERVAL_SECONDS = ALERT_AGE_INTERVAL_MINUTES = 86_400
