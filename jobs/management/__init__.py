"""What `manage.py` gains from jobs."""
