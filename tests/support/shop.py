"""A Django project of somebody else's: made by startproject, with the wheel on its path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

from tests.support.paths import ROOT

# A host need not have these packages. They are in this environment, so imports are refused.
NOT_INSTALLED = [
    "config",
    "mail",
    "unfold",
    "drf_spectacular",
    "prometheus_client",
    "structlog",
    "django_tasks",
    "environ",
    "whitenoise",
    "googleapiclient",
    "openai",
    "anthropic",
    "nh3",
    "py3langid",
    "opentelemetry",
]

REFUSE = """
from importlib.machinery import PathFinder

find_spec = PathFinder.find_spec
PathFinder.find_spec = lambda name, *where: (
    None if name.partition(".")[0] in NOT_INSTALLED else find_spec(name, *where)
)
"""

USERS = """
import uuid
from django.contrib.auth.models import AbstractUser
from django.db import models

class Customer(AbstractUser):
    id = models.UUIDField(primary_key=True, default=uuid.uuid4)
    username = None
    email = models.EmailField(unique=True)
    USERNAME_FIELD = "email"
    REQUIRED_FIELDS = []
"""

USERS_ADMIN = """
from django.contrib import admin
from shop.catalogue.models import Customer

@admin.register(Customer)
class CustomerAdmin(admin.ModelAdmin):
    list_display = ["email"]
"""


def build_wheel(folder: Path) -> Path:
    """Build the wheel from the working tree."""
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(ROOT))
    (wheel,) = folder.glob("*.whl")
    return wheel


def pip(*arguments: str) -> None:
    """Run pip without a registry."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*command, *arguments], check=True, timeout=300, cwd="/")


class Shop:
    """The project in `folder`, where every command runs."""

    def __init__(self, folder: Path, database: dict[str, Any]) -> None:
        self.folder = folder / "project"
        self.site = folder / "site-packages"
        self._database = database
        self._printed = ""
        self.folder.mkdir(parents=True)
        self.site.mkdir()

    def start(self, *, own_users: bool = True) -> None:
        """Create the project and an app, with customers in place of Django's users."""
        self._run("-m", "django", "startproject", "shop", ".")
        app = self.folder / "shop" / "catalogue"
        app.mkdir()
        self._run("-m", "django", "startapp", "catalogue", str(app))
        self.edit("shop/catalogue/apps.py", 'name = "catalogue"', 'name = "shop.catalogue"')
        self.edit("shop/settings.py", "INSTALLED_APPS = [", 'INSTALLED_APPS = ["shop.catalogue",')
        if own_users:
            self.write("shop/catalogue/models.py", USERS)
            self.write("shop/catalogue/admin.py", USERS_ADMIN)
            self.append("shop/settings.py", 'AUTH_USER_MODEL = "catalogue.Customer"')
        self.append("shop/settings.py", f"DATABASES = {{'default': {self._database!r}}}")

    def install(self, wheel: Path, *extras: str) -> None:
        """Install only the wheel; this environment has its requirements and those of `extras`."""
        pip("install", "--no-deps", "--no-index", "--target", str(self.site), str(wheel))
        (self.site / "sitecustomize.py").write_text(
            f"NOT_INSTALLED = {sorted({*NOT_INSTALLED} - {*extras})!r}\n{REFUSE}"
        )

    def write(self, name: str, text: str) -> None:
        """Write a file of the project."""
        (self.folder / name).write_text(dedent(text))

    def append(self, name: str, text: str) -> None:
        """Append text to a file of the project."""
        with (self.folder / name).open("a") as file:
            file.write("\n" + dedent(text))

    def edit(self, name: str, old: str, new: str) -> None:
        """Replace a text in a file of the project."""
        before = (self.folder / name).read_text().replace("'", '"')
        assert old in before, f"{name} has no {old}"
        (self.folder / name).write_text(before.replace(old, new))

    def manage(self, *arguments: str, exit_code: int = 0) -> str:
        """Run a command of the project; return what it printed."""
        return self._run("manage.py", *arguments, exit_code=exit_code)

    def read(self, *arguments: str) -> Any:
        """Run a command with `--json`; return what it printed."""
        self._run("manage.py", *arguments, "--json")
        return json.loads(self._printed)

    def python(self, program: str) -> str:
        """Run a Python program with the project's Django set up; return what it printed."""
        prelude = "import django; django.setup()\n"
        return self._run("-c", prelude + dedent(program))

    def _run(self, *arguments: str, exit_code: int = 0) -> str:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "PYTHONPATH": os.pathsep.join([str(self.site), str(self.folder)]),
            "DJANGO_SETTINGS_MODULE": "shop.settings",
            "PYTHONWARNINGS": "error::RuntimeWarning",
        }
        if "django" in arguments:
            del environment["DJANGO_SETTINGS_MODULE"]
        ran = subprocess.run(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        self._printed = ran.stdout
        said = ran.stdout + ran.stderr
        assert ran.returncode == exit_code, f"{arguments} ended with {ran.returncode}:\n{said}"
        return said
