"""Takes the addresses of the API apart."""

from __future__ import annotations

import re

ID_IN_PATH = re.compile(r"{\w+}")
_INTERFACE = re.compile("^/api/v1/(jobs/admin|mail)/")


def resource_of(path: str) -> str:
    """Return the resource that a path of the API begins with: jobs, dlq, accounts; "" elsewhere."""
    return _INTERFACE.sub("", path).partition("/")[0]
