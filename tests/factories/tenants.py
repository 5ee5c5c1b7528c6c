"""Firms, and the people in them."""

from __future__ import annotations

from typing import Any

import factory
from django.contrib.auth import get_user_model
from factory.django import DjangoModelFactory

from tenants.models import Firm, Membership, Role
from tenants.scope import all_firms


class FirmFactory(DjangoModelFactory):
    """A firm, whose name follows from its slug."""

    class Meta:
        model = Firm

    slug = factory.Sequence(lambda number: f"firm-{number}")
    name = factory.LazyAttribute(lambda firm: firm.slug.replace("-", " ").capitalize())


class FirmOwnedFactory(DjangoModelFactory):
    """A row that belongs to a firm; it is stored whatever scope the test is in."""

    class Meta:
        abstract = True

    firm = factory.SubFactory(FirmFactory)

    @classmethod
    def _create(cls, model_class: type[Any], *args: Any, **columns: Any) -> Any:
        with all_firms("test"):
            row = super()._create(model_class, *args, **columns)
            row.refresh_from_db()
            return row


class UserFactory(DjangoModelFactory):
    """A user; `member_of` is the user's firm, `member_of__role` the role there."""

    class Meta:
        model = get_user_model()
        skip_postgeneration_save = True

    class Params:
        platform_staff = factory.Trait(is_staff=True, is_superuser=True)

    username = factory.Sequence(lambda number: f"user-{number}")

    @classmethod
    def _create(cls, model_class: type[Any], *args: Any, **columns: Any) -> Any:
        return model_class.objects.create_user(*args, **columns)

    @factory.post_generation
    def member_of(
        self, create: bool, firm: Firm | None, *, role: Role = Role.VIEWER, **_: Any
    ) -> None:
        if firm is not None:
            MembershipFactory(firm=firm, user=self, role=role)


def new_member(firm: Firm, role: Role, username: str = "") -> Any:
    """Return a new member of the firm, who may use the admin, and is named after the role."""
    name = username or f"{role.value}@{firm.slug}.example"
    return UserFactory(
        username=name, email=name, is_staff=True, member_of=firm, member_of__role=role
    )


class MembershipFactory(FirmOwnedFactory):
    """A user's role in a firm."""

    class Meta:
        model = Membership

    user = factory.SubFactory(UserFactory)
    role = Role.VIEWER
