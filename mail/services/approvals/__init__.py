"""Asks for a person's yes, bound to the exact content."""
