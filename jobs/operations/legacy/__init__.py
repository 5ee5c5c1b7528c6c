"""Imports the jobs of an older system: its own job table, Celery's results or django-q's tasks."""
