"""The Django app configuration of the queue."""

from __future__ import annotations

import gc
from importlib.util import find_spec

import django
from django.apps import AppConfig, apps
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.db.backends.signals import connection_created
from django.db.models.signals import post_delete, post_migrate, pre_save


class JobsConfig(AppConfig):
    """The queue."""

    name = "jobs"
    verbose_name = "Queue"
    default_auto_field = "django.db.models.BigAutoField"

    def import_models(self) -> None:
        """Import the models, which refer to those of `tenants`, if that is installed.

        Raises:
            ImproperlyConfigured: `tenants` is not installed.
        """
        if not apps.is_installed("tenants"):
            raise ImproperlyConfigured(
                "the app `jobs` needs the app `tenants`: add it to INSTALLED_APPS"
            )
        super().import_models()

    def ready(self) -> None:
        """Connect signals; find every app's job types, and those of `django.tasks`, if present."""
        from django.contrib.auth import get_user_model

        from jobs.engine.dialects.sqlite_indexes import spell_conditions
        from jobs.engine.job_call import add_calls
        from jobs.engine.transactions import watch_forks
        from jobs.models import DeadLetterQueue, Schedule
        from jobs.operations import dead_letters
        from jobs.operations.deletion import take_jobs_along
        from jobs.queries.doctor import setting_checks, system_checks  # noqa: F401 - registers them
        from jobs.registry import add_finder, autodiscover, on_declaration
        from jobs.schedules.tick import set_first_slot

        DeadLetterQueue.operations = dead_letters
        pre_save.connect(set_first_slot, sender=Schedule)
        post_delete.connect(take_jobs_along, sender=get_user_model())
        post_migrate.connect(spell_conditions, sender=self)
        on_declaration(add_calls)
        if _has_tasks():
            from jobs.tasks_backend.calls import send_task_signals
            from jobs.tasks_backend.types import TaskTypes

            add_finder(TaskTypes())
            send_task_signals()
        autodiscover()
        watch_forks()
        _watch_connections()
        # A bulk call creates enough objects to start a full garbage collection. Freezing keeps that
        # collection from traversing every imported module.
        gc.freeze()


def _watch_connections() -> None:
    """Find poolers and set the format of times on each connection that Django opens from now on."""
    if connection.vendor == "postgresql":
        # psycopg may not be installed where the database is SQLite.
        from jobs.engine.clock import write_times_as_iso
        from jobs.engine.poolers import prepare_nothing_if_pooled

        connection_created.connect(prepare_nothing_if_pooled)
        connection_created.connect(write_times_as_iso)


def _has_tasks() -> bool:
    """Say whether `django.tasks` exists: in Django 6, or in the optional package `django-tasks`."""
    return django.VERSION >= (6,) or find_spec("django_tasks") is not None
