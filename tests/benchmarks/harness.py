"""What every benchmark does around its measuring: a database of its own, and a file of figures."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def empty_database() -> Iterator[str]:
    """Set Django up on an empty database, yield its vendor, and drop it at the end.

    Without setup_test_environment(): that keeps a copy of every template's context, which doubles
    the time of a list page and is no part of the product.
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
    """Write the figures to var/bench/ as JSON, and return that text."""
    from django.conf import settings

    folder = settings.VAR_DIR / "bench"
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"database": vendor, **figures}, indent=1)
    (folder / f"{benchmark}-{vendor}.json").write_text(text, encoding="utf-8")
    return text
