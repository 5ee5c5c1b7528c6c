#!/usr/bin/env python
"""Mailroom's command line."""

import os
import sys


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
    from django.conf import settings
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        settings.INSTALLED_APPS  # noqa: B018 - reads the environment; a wrong value stops us here
    except ImproperlyConfigured as error:
        sys.exit(f"mailroom: {error}")
    execute_from_command_line(sys.argv)


if __name__ == "__main__":
    main()
