"""What every benchmark needs besides its measurement: an empty database, and a file for figures."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def empty_database() -> Iterator[str]:
    """Set up Django on an empty database, yield its vendor, and drop the database at the end.

    This does without setup_test_environment(), which keeps a copy of every template's context: that
    doubles the time of a list page, and does not happen in production.
    """
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    import django

    django.setup()
    from django.conf import settings
    from django.db import connection
    from django.test.utils import setup_databases, teardown_databases

    settings.LOGGING_CONFIG = None
    databases = setup_databases(verbosity=0, interactive=False)
    try:
        yield connection.vendor
    finally:
        teardown_databases(databases, verbosity=0)


def keep(benchmark: str, vendor: str, figures: dict[str, Any]) -> str:
    """Write the figures to var/bench/ as JSON; return the JSON."""
    from django.conf import settings

    folder = settings.VAR_DIR / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"database": vendor, **figures}, indent=1)
    (folder / f"{benchmark}-{vendor}.json").write_text(text, encoding="utf-8")
    return text
