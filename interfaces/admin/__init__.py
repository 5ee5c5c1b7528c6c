"""Base classes of admin pages."""
