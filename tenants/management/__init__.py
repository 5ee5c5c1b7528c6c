"""What `manage.py` gains from tenants."""
