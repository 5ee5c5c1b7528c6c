"""Settings of worker processes that do everything, and whose e-mails a test sees."""

from __future__ import annotations

from config.settings import *  # noqa: F403 - a settings module is its names
from config.settings import VAR_DIR

EMAIL_BACKEND = "tests.support.post_office.EmailBackend"
EMAIL_FOLDER = VAR_DIR / "post"
# No alert job among the jobs that a test counts, however long its workers run.
ALERT_INTERVAL_SECONDS = ALERT_AGE_INTERVAL_MINUTES = 86_400
