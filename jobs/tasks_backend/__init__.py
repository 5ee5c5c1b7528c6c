"""Runs the functions of `django.tasks` on this queue.

    TASKS = {"default": {"BACKEND": "jobs.tasks_backend.MailroomBackend", "QUEUES": []}}

See docs/django-tasks.md for what a task's settings and states become.
"""

from jobs.tasks_backend.backend import MailroomBackend, MailroomTask

__all__ = ["MailroomBackend", "MailroomTask"]
