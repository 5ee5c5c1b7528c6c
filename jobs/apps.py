"""Django's handle on the jobs app."""

from __future__ import annotations

from django.apps import AppConfig
from django.db.models.signals import pre_save


class JobsConfig(AppConfig):
    """The queue."""

    name = "jobs"
    verbose_name = "Queue"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Find every app's job types; let `django.tasks` hear of the ends of its tasks."""
        from jobs.engine.transactions import watch_forks
        from jobs.models import DeadLetterQueue, Schedule
        from jobs.operations import dead_letters
        from jobs.registry import autodiscover
        from jobs.schedules.tick import set_first_slot
        from jobs.tasks_backend.calls import send_task_signals

        DeadLetterQueue.operations = dead_letters
        pre_save.connect(set_first_slot, sender=Schedule)
        autodiscover()
        send_task_signals()
        watch_forks()
