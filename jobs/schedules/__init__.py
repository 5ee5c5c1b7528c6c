"""Schedules: when each is due, and the jobs that a slot enqueues."""
