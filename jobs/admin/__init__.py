"""The queue's admin pages; simple ones for the stock admin, where Unfold is not installed."""

from django.apps import apps

if apps.is_installed("unfold"):
    from jobs.admin import (  # noqa: F401 - each registers its pages
        batch,
        breaker,
        bulk_run,
        dead_letter,
        deletion,
        job,
        limits,
        lock,
        notifications,
        pause,
        schedule,
        schedule_run,
        worker,
    )
else:
    from jobs.admin import plain  # noqa: F401
