"""The error that keeps the service from starting."""

from __future__ import annotations

from django.core.exceptions import ImproperlyConfigured


class EnvironmentInvalid(ImproperlyConfigured):
    """An environment variable has a value this service cannot use."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"environment variable {name}: {reason}")
        self.name = name
