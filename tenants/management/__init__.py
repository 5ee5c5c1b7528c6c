"""The management commands of tenants."""
