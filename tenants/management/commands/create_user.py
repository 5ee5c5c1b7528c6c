"""`manage.py create_user EMAIL --firm S --role R --password-env VAR`."""

from __future__ import annotations

import os
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.core.management.base import CommandParser
from django.core.validators import validate_email
from django.db import transaction

from interfaces.commands import JsonCommand, Refused
from tenants.access import set_role
from tenants.cli import add_member_arguments, firm_by_slug, operator
from tenants.models import Role
from tenants.users import email_field, find_users, sign_in_field


class Command(JsonCommand):
    """Creates a user, or adds an existing one to a firm."""

    help = "Create a user, if there is none yet, and make the user a member of a firm."

    def add_arguments(self, parser: CommandParser) -> None:
        """Declare address, firm, role and the variable that holds the password."""
        add_member_arguments(parser, "the user's address, with which a new user signs in")
        parser.add_argument(
            "--password-env",
            required=True,
            metavar="VAR",
            help="the environment variable that holds the password",
        )

    def handle(self, *_: Any, email: str, firm: str, role: str, **options: Any) -> None:
        """Create user, membership and audit entry, or none of them."""
        try:
            validate_email(email)
        except ValidationError as error:
            raise Refused(f"email: {error.message}") from error
        owner = firm_by_slug(firm)
        with transaction.atomic():
            user = self._user(email, options["password_env"])
            set_role(user, owner, Role(role), by=operator())
        if options["json"]:
            self.emit({"id": user.pk, "email": email, "firm": owner.slug, "role": role})
        else:
            self.stdout.write(f"{email} now has the role {role} in {owner.name}.")

    def _user(self, email: str, password_env: str) -> AbstractBaseUser:
        """Return the user with this address, creating it with the given password."""
        existing: AbstractBaseUser | None = find_users(email).first()
        if existing is not None:
            return existing
        # The caller names the variable, so config.env cannot know it.
        password = os.environ.get(password_env, "")
        if not password:
            raise Refused(f"the environment variable {password_env} is empty")
        try:
            validate_password(password)
        except ValidationError as error:
            raise Refused("password: " + " ".join(error.messages)) from error
        manager: Any = get_user_model()._default_manager
        address = email_field()
        fields = {} if address is None else {address: email}
        user: AbstractBaseUser = manager.create_user(
            **(fields | {sign_in_field(): email.lower()}), password=password, is_staff=True
        )
        return user
