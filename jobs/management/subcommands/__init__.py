"""The verbs of `manage.py jobs` and `manage.py dlq`, one small module each."""
