"""The management commands of the queue."""
