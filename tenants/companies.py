"""Keeps a firm for each row of a table of companies that the project has already.

TENANTS_COMPANY_MODEL names the table, as in "shop.Company". A firm is made when its company is
saved or first asked for, takes over a new name, and stays, inactive, when the company is deleted:
`manage.py delete_firm` takes its jobs along. A company that is made again with the same key has that
firm again, active.
"""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import connection
from django.db.models import Model
from django.db.models.signals import post_delete, post_migrate, post_save

from tenants.errors import UnknownFirm
from tenants.models import Firm
from tenants.scope import id_of_firm

CHUNK = 500
SLUG_LENGTH = 50


def company_model() -> type[Model] | None:
    """Return the model that TENANTS_COMPANY_MODEL names, None if it is not set."""
    name = getattr(settings, "TENANTS_COMPANY_MODEL", "")
    return apps.get_model(name) if name else None


def slug_of(company: Model) -> str:
    """Return the slug of the company's firm: the model's name, cut to leave room for the key, and the key.

    A row of a proxy, or of a model that extends the companies', is the company with the same key.
    """
    model = company_model() or type(company)
    key = str(getattr(company, model._meta.pk.attname))
    room = SLUG_LENGTH - len(f"-{key}")
    return f"{str(model._meta.model_name)[: max(room, 1)]}-{key}"


def firm_of(company: Model) -> Firm:
    """Return the company's firm; make it if there is none yet, for example after `bulk_create`.

    Raises:
        UnknownFirm: the company is not saved, is no row of TENANTS_COMPANY_MODEL, or has a key that
            fits into no slug.
    """
    model = company_model()
    if model is None or not isinstance(company, model) or company.pk is None:
        raise UnknownFirm(f"{company!r} is not a saved row of TENANTS_COMPANY_MODEL")
    slug = slug_of(company)
    if len(slug) > SLUG_LENGTH:
        raise UnknownFirm(
            f"the key of this {model._meta.label} has {len(slug) - 2} characters; a company's firm is "
            f"found by a key of at most {SLUG_LENGTH - 2}: give the model a shorter primary key"
        )
    firm, _ = Firm.objects.get_or_create(slug=slug, defaults={"name": _name(company)})
    return firm


def company_of(firm: Firm | int) -> Any:
    """Return the company of this firm (or firm's id); None if it was deleted or never was one."""
    model = company_model()
    if model is None:
        return None
    slugs = Firm.objects.filter(pk=id_of_firm(firm)).values_list("slug", flat=True)
    slug = firm.slug if isinstance(firm, Firm) else slugs.first()
    if slug is None:
        return None
    try:
        company = model._base_manager.filter(pk=slug.partition("-")[2]).first()
    except (ValueError, ValidationError):
        # The firm is not a company's: what follows in its slug is no key.
        return None
    return company if company is not None and slug_of(company) == slug else None


def keep_firms() -> None:
    """Begin to keep a firm for each company; missing firms are made after each migration."""
    model = company_model()
    if model is not None:
        # A proxy, or a model that extends the companies', sends its own class.
        for sender in apps.get_models():
            if not issubclass(sender, model):
                continue
            post_save.connect(_saved, sender=sender, dispatch_uid="tenants.companies")
            # The row of a model that extends the companies' may be deleted without the company.
            if sender._meta.concrete_model is model._meta.concrete_model:
                post_delete.connect(_deleted, sender=sender, dispatch_uid="tenants.companies")
        post_migrate.connect(_migrated, dispatch_uid="tenants.companies")


def _name(company: Model) -> str:
    return str(company)[: Firm._meta.get_field("name").max_length]


def _saved(instance: Model, *, created: bool, raw: bool = False, **_: Any) -> None:
    if raw:
        # A fixture is loaded: it contains the firms, or they are made when first asked for.
        return
    firm, name = firm_of(instance), _name(instance)
    # Its firm is inactive if a company with the same key was deleted.
    active = created or firm.active
    if (firm.name, firm.active) != (name, active):
        Firm.objects.filter(pk=firm.pk).update(name=name, active=active)


def _deleted(instance: Model, **_: Any) -> None:
    Firm.objects.filter(slug=slug_of(instance)).update(active=False)


def _migrated(using: str, **_: Any) -> None:
    model = company_model()
    if model is None or using != "default":
        return
    tables = connection.introspection.table_names()
    if model._meta.db_table in tables and Firm._meta.db_table in tables:
        for company in model._base_manager.iterator(chunk_size=CHUNK):
            firm_of(company)
