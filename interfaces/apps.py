"""The configuration of the app `interfaces`."""

from __future__ import annotations

from django.apps import AppConfig


class InterfacesConfig(AppConfig):
    """The templates, styles and scripts that the admin pages of several apps share; it has no tables."""

    name = "interfaces"
