#!/usr/bin/env python
"""Mailroom's command line."""

import gc
import os
import sys
from typing import Any


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    # Nothing that is imported is garbage: to look for some would take a sixth of the start.
    gc.disable()
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import ManagementUtility

    class CommandLine(ManagementUtility):
        def fetch_command(self, subcommand: str) -> Any:
            command = super().fetch_command(subcommand)
            gc.enable()
            return command

    try:
        settings.INSTALLED_APPS  # noqa: B018 - reads the environment; a wrong value stops us here
    except ImproperlyConfigured as error:
        sys.exit(f"mailroom: {error}")
    CommandLine(sys.argv).execute()


if __name__ == "__main__":
    main()
