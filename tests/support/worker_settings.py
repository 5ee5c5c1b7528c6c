"""Settings of the worker processes that tests start: the queue alone, and the tests' job types."""

from __future__ import annotations

import os

from config.settings import *  # noqa: F403 - a settings module is its names

# Less to import: a worker is there in half the time.
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
# No alert job among the jobs that a test counts, however long its workers run.
ALERT_INTERVAL_SECONDS = ALERT_AGE_INTERVAL_MINUTES = 86_400
