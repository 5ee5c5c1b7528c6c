"""Django's handle on the jobs app."""

from __future__ import annotations

from django.apps import AppConfig


class JobsConfig(AppConfig):
    """The queue."""

    name = "jobs"
    verbose_name = "Queue"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Find every app's job types; let `django.tasks` hear of the ends of its tasks."""
        from jobs.forks import watch_forks
        from jobs.registry import autodiscover
        from jobs.tasks_backend.run import announce_ends

        autodiscover()
        announce_ends()
        watch_forks()
