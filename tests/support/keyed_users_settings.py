"""Settings of a process whose users have keys of the type that USER_MODEL names."""

from __future__ import annotations

import os

from tests.support.worker_settings import *  # noqa: F403 - a settings module is its names
from tests.support.worker_settings import INSTALLED_APPS as WORKER_APPS

INSTALLED_APPS = [*WORKER_APPS, "tests.support.keyed_users"]
AUTH_USER_MODEL = f"keyed_users.{os.environ['USER_MODEL']}"
