"""Reminders: their operations, their due dates, and their delivery."""
