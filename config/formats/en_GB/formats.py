"""Times to the second, with their zone, so that operators can compare them with logs."""

from __future__ import annotations

DATETIME_FORMAT = "Y-m-d H:i:s e"
