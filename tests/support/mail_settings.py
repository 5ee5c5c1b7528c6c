"""Settings of worker processes that serve all apps, and whose e-mails a test can read."""

from __future__ import annotations

from config.settings import *  # noqa: F403 - a settings module is its names
from config.settings import VAR_DIR

EMAIL_BACKEND = "tests.support.post_office.EmailBackend"
EMAIL_FOLDER = VAR_DIR / "post"
# Alerts are rare, so that no alert's job is among those that a test counts.
ALERT_INTERVAL_SECONDS = ALERT_AGE_INTERVAL_MINUTES = 86_400
