"""Fixtures for tests of one worker process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.conf import settings

from tests.support.databases import database_url


@pytest.fixture(scope="module")
def isolated_memory_mb(django_db_setup: None) -> Iterator[int]:
    """Let isolated processes find the tests' job types; return their memory limit in MB.

    The limit is less than the hungry job asks for.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DJANGO_SETTINGS_MODULE", "tests.support.worker_settings")
        patch.setenv("DATABASE_URL", database_url())
        patch.setenv("VAR_DIR", str(settings.VAR_DIR))
        patch.setenv("JOB_ISOLATED_MEMORY_MB", "1024")
        patch.setattr(settings, "JOB_ISOLATED_MEMORY_MB", 1024)
        yield 1024
