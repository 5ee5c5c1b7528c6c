"""Times as operators compare them with logs: to the second, with their zone."""

from __future__ import annotations

DATETIME_FORMAT = "Y-m-d H:i:s e"
