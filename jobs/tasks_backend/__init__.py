"""Runs the functions of `django.tasks` on this queue.

    TASKS = {"default": {"BACKEND": "jobs.tasks_backend.MailroomBackend", "QUEUES": []}}

docs/django-tasks.md says how a task's settings and states map to those of its job.
"""

from jobs.tasks_backend.backend import MailroomBackend, MailroomTask

__all__ = ["MailroomBackend", "MailroomTask"]
