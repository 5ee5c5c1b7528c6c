"""Imports the jobs of an older system: a job table of its own, Celery's results, django-q's tasks."""
