"""A project's own table of companies: each has one firm, whatever its key and its class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.apps import apps
from django.contrib.auth.models import Group
from django.db import models
from django.db.models.signals import post_delete, post_migrate, post_save
from django.test.utils import isolate_apps

from tenants import companies
from tenants.companies import company_of, firm_of, keep_firms, slug_of
from tenants.errors import NotAFirm, UnknownFirm
from tenants.models import Firm

pytestmark = [pytest.mark.django_db]


with isolate_apps("tests"):

    class Branch(Group):
        """A group by another class."""

        class Meta:
            proxy = True
            app_label = "tests"


@pytest.fixture
def groups(settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make the groups of Django the companies."""
    settings.TENANTS_COMPANY_MODEL = "auth.Group"
    with monkeypatch.context() as patch:
        patch.setattr(apps, "get_models", lambda: [Group, Branch, Firm])
        keep_firms()
    yield
    for sender in (Group, Branch):
        for signal in (post_save, post_delete):
            assert signal.disconnect(sender=sender, dispatch_uid="tenants.companies")
    post_migrate.disconnect(dispatch_uid="tenants.companies")


@isolate_apps("tenants")
def test_a_company_with_a_long_key_and_a_long_name_has_a_firm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class CustomerOrganization(models.Model):
        id = models.UUIDField(primary_key=True, default=uuid4)

        class Meta:
            app_label = "tenants"

        def __str__(self) -> str:
            return "Acme"

    monkeypatch.setattr(companies, "company_model", lambda: CustomerOrganization)
    keys = [UUID(int=1), UUID(int=2)]
    slugs = {firm_of(CustomerOrganization(pk=key)).slug for key in keys}
    assert slugs == {f"customerorgan-{key}" for key in keys}
    assert {len(slug) for slug in slugs} == {Firm._meta.get_field("slug").max_length}


@isolate_apps("tenants")
def test_a_company_of_a_model_that_extends_the_companies_has_the_same_firm(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Shop(models.Model):
        class Meta:
            app_label = "tenants"

    class Bakery(Shop):
        class Meta:
            app_label = "tenants"

    monkeypatch.setattr(companies, "company_model", lambda: Shop)
    assert slug_of(Bakery(id=7, shop_ptr_id=7)) == slug_of(Shop(id=7)) == "shop-7"


def test_a_company_that_is_saved_and_deleted_by_a_proxy_keeps_its_one_firm(groups: None) -> None:
    company = Branch.objects.create(name="North")
    firm = firm_of(company)
    assert firm == firm_of(Group.objects.get(pk=company.pk))
    company.name = "South"
    company.save()
    assert Firm.objects.get(pk=firm.pk).name == "South"
    company.delete()
    assert not Firm.objects.get(pk=firm.pk).active
    assert Firm.objects.filter(slug__contains="-").count() == 1


def test_a_company_that_is_made_again_with_its_key_has_its_firm_again(groups: None) -> None:
    company = Group.objects.create(name="North")
    firm, key = firm_of(company), company.pk
    company.delete()
    again = Group.objects.create(pk=key, name="North again")
    found = firm_of(again)
    assert (found.pk, found.active, found.name) == (firm.pk, True, "North again")
    # An operator's word stays when the company is saved.
    Firm.objects.filter(pk=firm.pk).update(active=False)
    again.save()
    assert not firm_of(again).active


@isolate_apps("tenants")
@pytest.mark.parametrize("length", [48, 49])
def test_a_key_that_fits_into_no_slug_is_refused(
    monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    class Customer(models.Model):
        id = models.CharField(primary_key=True, max_length=60)

        class Meta:
            app_label = "tenants"

    monkeypatch.setattr(companies, "company_model", lambda: Customer)
    company = Customer(pk="k" * length)
    if length <= 48:
        assert firm_of(company).slug == f"c-{company.pk}"
        return
    with pytest.raises(
        UnknownFirm, match=r"has 49 characters; .* key of at most 48: give the model"
    ):
        firm_of(company)
    # Such a company may be deleted: it never had a firm.
    companies._deleted(company)


def test_a_firm_that_is_no_companys_has_no_company(groups: None, firm: Firm) -> None:
    company = Group.objects.create(name="North")
    assert company_of(firm_of(company)) == company_of(firm_of(company).pk) == company
    for slug in ("group-north", f"group-0{company.pk}", f"guild-{company.pk}", "group"):
        assert company_of(Firm.objects.create(name=slug, slug=slug)) is None
    assert company_of(firm) is company_of(2**31) is None
    with pytest.raises(NotAFirm):
        company_of(company)  # type: ignore[arg-type]
