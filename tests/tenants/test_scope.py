"""Without a firm in scope there is nothing to see and nothing to write."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.apps import apps
from django.contrib.auth import get_user_model
from django.db import connection, models
from django.db.migrations.executor import MigrationExecutor
from django.test.utils import CaptureQueriesContext

from jobs.models import JobQueue, JobStep
from jobs.queue import enqueue
from tenants.access import access_of
from tenants.errors import MissingTenant, NotAFirm, TenantMismatch
from tenants.models import Firm, FirmOwned, Membership, Role
from tenants.scope import all_firms, current_scope, firm_scope, firms_scope, require_scope

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("T-02")]

FIRM_OWNED = [model for model in apps.get_models() if issubclass(model, FirmOwned)]


@pytest.fixture
def both(firm: Firm, other_firm: Firm) -> tuple[Firm, Firm]:
    """Give each of two firms one job and one step."""
    for one in (firm, other_firm):
        job_id = enqueue("noop", firm=one).job_id
        with firm_scope(one):
            JobStep.objects.create(job_id=job_id, name="a", result=one.slug)
    return firm, other_firm


QUERIES: list[Callable[[Any], Any]] = [
    lambda objects: objects.all(),
    lambda objects: objects.filter(pk=None),
    lambda objects: objects.count(),
    lambda objects: objects.first(),
    lambda objects: objects.exists(),
    lambda objects: objects.get(pk=None),
    lambda objects: objects.values_list("pk"),
    lambda objects: objects.none(),
    lambda objects: objects.update(pk=None),
    lambda objects: objects.in_bulk([]),
]


@pytest.mark.parametrize("model", FIRM_OWNED, ids=lambda model: model._meta.label)
def test_no_model_answers_without_a_firm_in_scope(model: type[models.Model]):
    for query in QUERIES:
        with pytest.raises(MissingTenant, match=model.__name__):
            query(model._default_manager)


@pytest.mark.parametrize("model", FIRM_OWNED, ids=lambda model: model._meta.label)
def test_no_row_is_saved_without_a_firm_in_scope(model: type[models.Model]):
    with pytest.raises(MissingTenant, match=model.__name__):
        model().save()
    with pytest.raises(MissingTenant):
        model._default_manager.bulk_create([model()])


def test_a_scope_sees_its_own_firms_rows_alone(both):
    firm, other = both
    for one in both:
        with firm_scope(one):
            assert [step.result for step in JobStep.objects.all()] == [one.slug]
            assert JobQueue.objects.get().firm_id == one.pk
            assert JobQueue.objects.get().steps.get().result == one.slug
    with firms_scope([firm.pk, other.pk]):
        assert JobQueue.objects.count() == 2
    with firms_scope([]):
        assert JobQueue.objects.count() == 0
    with all_firms("test"):
        assert JobQueue.objects.count() == 2


def test_another_firms_row_is_neither_found_nor_changed_nor_deleted(both):
    firm, other = both
    with firm_scope(other):
        foreign = JobStep.objects.get()
    with firm_scope(firm):
        assert not JobStep.objects.filter(pk=foreign.pk).exists()
        assert JobStep.objects.filter(pk=foreign.pk).update(result="stolen") == 0
        assert JobStep.objects.filter(pk=foreign.pk).delete()[0] == 0
    with firm_scope(other):
        assert JobStep.objects.get().result == other.slug


def test_a_row_of_another_firm_cannot_be_saved(both):
    firm, other = both
    with firm_scope(firm):
        job = JobQueue.objects.get()
        foreign = JobStep(firm=other, job=job, name="b", result=1)
        with pytest.raises(TenantMismatch):
            foreign.save()
        with pytest.raises(TenantMismatch):
            JobStep.objects.bulk_create([foreign])
        with pytest.raises(TenantMismatch):
            JobStep.objects.create(firm=other, job=job, name="b", result=1)
    with all_firms("test"):
        assert JobStep.objects.count() == 2


def test_a_row_takes_the_firm_in_scope_when_there_is_one(firm, other_firm):
    job_id = enqueue("noop", firm=firm).job_id
    with firm_scope(firm):
        assert JobStep.objects.create(job_id=job_id, name="a", result=1).firm_id == firm.pk
        (many,) = JobStep.objects.bulk_create([JobStep(job_id=job_id, name="b", result=1)])
        assert many.firm_id == firm.pk
    for scope in (firms_scope([firm.pk, other_firm.pk]), all_firms("test")):
        with scope, pytest.raises(MissingTenant, match="without a firm"):
            JobStep(job_id=job_id, name="c", result=1).save()


def test_scopes_nest_and_end(firm, other_firm):
    assert current_scope() is None
    with firm_scope(firm):
        assert require_scope().only_firm_id == firm.pk
        with firm_scope(other_firm.pk):
            assert require_scope().only_firm_id == other_firm.pk
            assert not require_scope().allows(firm.pk)
        with all_firms("test"):
            assert require_scope().allows(other_firm.pk)
            assert require_scope().only_firm_id is None
        assert require_scope().only_firm_id == firm.pk
    assert current_scope() is None
    with pytest.raises(MissingTenant, match="a list"):
        require_scope("a list")


def test_an_error_ends_the_scope_and_takes_its_writes_with_it(both):
    firm, other = both

    def fail() -> None:
        with firm_scope(firm):
            JobStep.objects.update(result="changed")
            raise ZeroDivisionError

    with firm_scope(other):
        with pytest.raises(ZeroDivisionError):
            fail()
        assert require_scope().only_firm_id == other.pk
        assert JobStep.objects.get().result == other.slug
    assert current_scope() is None
    with firm_scope(firm):
        assert JobStep.objects.get().result == firm.slug


def test_a_scope_does_not_leak_into_other_threads(firm):
    with firm_scope(firm), ThreadPoolExecutor(1) as threads:
        assert threads.submit(current_scope).result() is None


def test_looking_at_every_firm_takes_a_reason(firm):
    with pytest.raises(ValueError, match="reason"):
        all_firms("").__enter__()
    with pytest.raises(ValueError, match="reason"):
        JobQueue.objects.unscoped("")


@pytest.mark.req("T-01")
def test_a_user_sees_the_firms_he_belongs_to_and_staff_sees_all(firm, other_firm):
    users = get_user_model().objects
    ada, nobody = users.create_user("ada"), users.create_user("nobody")
    with firm_scope(firm):
        Membership.objects.create(user=ada, role=Role.VIEWER)
    with firm_scope(other_firm):
        Membership.objects.create(user=ada, role=Role.ADMIN)
    access = access_of(ada)
    assert access.roles.keys() == {firm.pk, other_firm.pk}
    assert access.may(Role.VIEWER, firm.pk)
    assert not access.may(Role.OPERATOR, firm.pk)
    assert all(access.may(role, other_firm.pk) for role in Role)
    assert access_of(nobody).roles == {}
    assert not access_of(nobody).may(Role.VIEWER, firm.pk)
    staff = access_of(users.create_superuser("root"))
    assert staff.roles is None
    assert staff.may(Role.ADMIN, firm.pk)
    Firm.objects.filter(pk=other_firm.pk).update(active=False)
    assert access_of(ada).roles.keys() == {firm.pk}


def test_a_scope_within_one_of_the_same_firm_sets_nothing_and_leaves_nothing_behind(both):
    firm, other = both
    with firm_scope(firm):
        with CaptureQueriesContext(connection) as queries, firm_scope(firm):
            assert JobStep.objects.get().result == firm.slug
        assert not [one for one in queries if "set_config" in one["sql"]]
        with firm_scope(other), firm_scope(other):
            assert JobStep.objects.get().result == other.slug
        with pytest.raises(ZeroDivisionError), firm_scope(firm):
            raise ZeroDivisionError
        with firm_scope(firm), all_firms("test"), firm_scope(firm):
            assert JobStep.objects.get().result == firm.slug
        assert JobStep.objects.get().result == firm.slug
        # Row level security is still in the firm's scope; SQLite has none.
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM jobs_jobstep")
            assert cursor.fetchone()[0] == (1 if connection.vendor == "postgresql" else 2)


@pytest.mark.parametrize("given", [None, True, "1", 1.0, Firm, Firm(name="new"), object()])
def test_a_scope_takes_firms_and_their_ids_alone(given: Any) -> None:
    with pytest.raises(NotAFirm):
        firm_scope(given)
    with pytest.raises(NotAFirm):
        firms_scope([given])


def test_a_user_whose_id_is_that_of_a_firm_opens_no_scope(firm: Firm) -> None:
    user = get_user_model()(pk=firm.pk, username="ada")
    with pytest.raises(NotAFirm, match="must be a Firm or the id of one, not User"):
        firm_scope(user)  # type: ignore[arg-type]


def test_a_migrations_own_class_of_firm_opens_a_scope(both: tuple[Firm, Firm]) -> None:
    historical = MigrationExecutor(connection).loader.project_state().apps
    row = historical.get_model("tenants", "Firm").objects.get(pk=both[0].pk)
    with firm_scope(row):
        assert JobStep.objects.get().result == both[0].slug
    with firms_scope(both):
        assert JobStep.objects.count() == len(both)


def test_a_row_that_cannot_be_read_again_without_a_scope_says_so(firm: Firm) -> None:
    job = enqueue("noop", firm=firm).job
    if connection.vendor == "sqlite":
        job.refresh_from_db()
    else:
        with pytest.raises(MissingTenant, match=r"^JobQueue: No firm is in scope: use "):
            job.refresh_from_db()
    with firm_scope(firm):
        job.refresh_from_db()
        JobQueue.objects.all().delete()
        with pytest.raises(JobQueue.DoesNotExist):
            job.refresh_from_db()
    if connection.vendor == "sqlite":
        with pytest.raises(JobQueue.DoesNotExist):
            job.refresh_from_db()


def test_a_related_row_that_cannot_be_read_without_a_scope_says_so(firm: Firm) -> None:
    job_id = enqueue("noop", firm=firm).job_id
    with firm_scope(firm):
        JobStep.objects.create(job_id=job_id, name="a", result=None)
        step = JobStep.objects.get()
    if connection.vendor == "sqlite":
        assert step.job.pk == job_id
        return
    with pytest.raises(MissingTenant, match=r"^JobQueue: No firm is in scope: use "):
        _ = step.job
    with firm_scope(firm):
        assert step.job.pk == job_id


@pytest.mark.parametrize("model", FIRM_OWNED, ids=lambda model: model._meta.label)
def test_no_row_known_by_its_id_seems_gone_without_a_scope(model: type[models.Model]) -> None:
    # Django's manager for foreign keys and for `refresh_from_db`.
    rows = model._base_manager.all()
    missing = model.DoesNotExist if connection.vendor == "sqlite" else MissingTenant
    with pytest.raises(missing):
        rows.get(pk=None)
    with all_firms("the row itself is missing"), pytest.raises(model.DoesNotExist):
        rows.get(pk=None)


def test_a_row_is_not_deleted_without_a_scope(firm: Firm) -> None:
    job = enqueue("noop", firm=firm).job
    with pytest.raises(MissingTenant, match=r"^JobQueue: No firm is in scope: use "):
        job.delete()
    with firm_scope(firm):
        assert JobQueue.objects.get() == job
        job.delete()
        assert not JobQueue.objects.exists()
