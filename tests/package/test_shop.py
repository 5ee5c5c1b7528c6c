"""The wheel in somebody else's project, from `pip install` to the first completed job."""

from __future__ import annotations

import re
from pathlib import Path

import environ
import pytest
from pytest_django import DjangoDbBlocker

from tests.support.databases import empty_database
from tests.support.paths import ROOT
from tests.support.shop import Shop, build_wheel

pytestmark = [pytest.mark.processes, pytest.mark.req("A-01")]

HANDLERS = """
from django.core.mail import send_mail
from jobs.errors import Fatal
from jobs.registry import JobPayload, job

class Greeting(JobPayload):
    name: str

@job("greet", category="notifications", payload=Greeting)
def greet(payload, ctx):
    if payload.name == "nobody":
        raise ValueError("there is nobody")
    if payload.name == "by mail":
        send_mail("Hello", "How are you?", None, ["ada@example.org"])
        raise Fatal("e-mail is sent, and only that")
    return {"text": f"Hello {payload.name}"}
"""

COMPANIES = """

class Company(models.Model):
    title = models.CharField(max_length=100)

    def __str__(self):
        return self.title
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture
def shop(
    tmp_path: Path, wheel: Path, django_db_setup: None, django_db_blocker: DjangoDbBlocker
) -> Shop:
    with django_db_blocker.unblock(), empty_database("shop", tmp_path) as url:
        shop = Shop(tmp_path / "shop", dict(environ.Env.db_url_config(url)))
        shop.start()
        shop.install(wheel)
        shop.edit("shop/settings.py", "INSTALLED_APPS = [", 'INSTALLED_APPS = ["tenants", "jobs", ')
        shop.write("shop/catalogue/job_handlers.py", HANDLERS)
        yield shop


def test_the_steps_of_the_install_page_lead_to_a_completed_job(shop: Shop) -> None:
    shop.manage("makemigrations", "catalogue")
    shop.manage("check")
    shop.manage("migrate")
    shop.python("""
        from django.contrib.auth import get_user_model
        from jobs.queue import enqueue

        user = get_user_model().objects.create(email="ada@example.org")
        enqueue("greet", {"name": "Ada"}, user=user)
        enqueue("greet", {"name": "nobody"}, max_attempts=1)
    """)
    shop.manage("runworker", "--burst")
    (failed, done) = shop.read("jobs", "list")["results"]
    assert (done["status"], done["firm"]) == ("completed", "system")
    assert failed["status"] == "dlq"
    shown = shop.read("jobs", "show", done["job_id"])
    assert shown["result"] == {"text": "Hello Ada"}
    told = shop.python(f"""
        from django.apps import apps
        from django.contrib.auth import get_user_model
        from django.test import Client
        from django.conf import settings
        from jobs.models import Batch
        from tenants.models import Firm
        from tenants.scope import all_firms
        settings.ALLOWED_HOSTS = ["testserver"]

        User = get_user_model()
        client = Client()
        client.force_login(User.objects.create(email="b@c.d", is_staff=True, is_superuser=True))
        jobs = "/admin/jobs/jobqueue/"
        for address in ("/admin/", "/admin/catalogue/customer/", "/admin/auth/group/", jobs,
                        "/admin/jobs/deadletterqueue/", "/admin/jobs/schedule/",
                        "/admin/jobs/worker/", "/admin/tenants/firm/",
                        jobs + "{failed["job_id"]}/history/", jobs + "{failed["job_id"]}/change/"):
            answer = client.get(address)
            assert answer.status_code == 200, (address, answer.status_code)
        assert client.get(jobs + "{failed["job_id"]}/delete/").status_code == 403
        assert "there is nobody" in answer.content.decode()
        with all_firms("test"):
            batch = Batch.objects.create(firm=Firm.objects.system(), name="May", correlation_id="c")
        assert "0 of 0 completed" in client.get("/admin/jobs/batch/").content.decode()
        page = client.get(f"/admin/jobs/batch/{{batch.pk}}/change/").content.decode()
        assert "May" in page and "0 of 0 completed" in page
        chosen = {{"action": "retry", "_selected_action": ["{failed["job_id"]}"]}}
        answer = client.post(jobs, chosen, follow=True)
        assert "Retried: 1" in answer.content.decode()
        # The project's own way to delete a user, outside any scope.
        User.objects.get(email="ada@example.org").delete()
        print("all is well")
    """)
    assert "all is well" in told
    assert "dlq" in shop.manage("jobs", "run", failed["job_id"], "--inline")
    assert "ValueError: there is nobody" in shop.manage("jobs", "show", failed["job_id"])
    shop.manage("runworker", "--burst")
    left = shop.read("jobs", "list")["results"]
    # The completed job was deleted with its user; the job that was run again failed again.
    by_id = {one["job_id"]: one for one in left}
    assert done["job_id"] not in by_id
    assert by_id[failed["job_id"]]["status"] == "dlq"


def documented(text: str) -> str:
    """Return the Python code of the install page that has this text."""
    page = (ROOT / "docs" / "install.md").read_text()
    (found,) = [
        block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if text in block
    ]
    return found


def test_the_extras_work_as_they_are_installed(shop: Shop, wheel: Path) -> None:
    shop.install(wheel, "unfold", "drf_spectacular")
    apps = '"unfold", "unfold.contrib.filters", "interfaces", "rest_framework", "drf_spectacular"'
    shop.edit("shop/settings.py", "INSTALLED_APPS = [", f"INSTALLED_APPS = [{apps}, ")
    assert "tenants.middleware.FirmScopeMiddleware" in shop.manage("check", exit_code=1)
    shop.append("shop/settings.py", 'MIDDLEWARE += ["tenants.middleware.FirmScopeMiddleware"]')
    shop.append("shop/settings.py", documented("UNFOLD = "))
    shop.append(
        "shop/urls.py",
        """
        from django.urls import include
        urlpatterns += [path("api/", include("jobs.api.urls"))]
        """,
    )
    shop.manage("makemigrations", "catalogue")
    shop.manage("migrate")
    # The schema does not depend on the project's REST_FRAMEWORK, which this project has not set.
    assert "operationId: jobs_retry" in shop.manage("spectacular")
    told = shop.python("""
        from django.conf import settings
        from django.contrib.auth import get_user_model
        from django.core.management import call_command
        from django.db import DatabaseError
        from django.test import Client
        from jobs.queue import enqueue
        from tenants.api.keys import issue
        from tenants.cli import operator
        from tenants.models import AuditEntry, Firm, Role
        from tenants.scope import all_firms
        settings.ALLOWED_HOSTS = ["testserver"]

        User = get_user_model()
        boss = User.objects.create(email="b@c.d", is_staff=True, is_superuser=True)
        client = Client()
        client.force_login(boss)
        enqueue("greet", {"name": "Ada"})
        for page in ("jobs/jobqueue", "jobs/deadletterqueue", "jobs/schedule", "jobs/worker",
                     "tenants/auditentry", "tenants/firm"):
            answer = client.get(f"/admin/{page}/")
            assert answer.status_code == 200, (page, answer.status_code)
            for part in ("admin.css", "admin.js"):
                assert f"/static/interfaces/{part}" in answer.content.decode()
        assert "Dead letters" in client.get("/admin/").content.decode()

        key, _ = issue(boss, Firm.objects.system(), Role.ADMIN, lifetime=None, by=operator())
        signed = {"Authorization": f"Bearer {key}"}
        found = Client().get("/api/jobs/", headers=signed)
        assert found.status_code == 200, found.content
        assert [one["job_type"] for one in found.json()["results"]] == ["greet"]
        nobody = Client().get("/api/jobs/")
        assert (nobody.status_code, nobody["WWW-Authenticate"][:6]) == (401, "Bearer")
        assert nobody["Content-Type"] == "application/problem+json"

        def note():
            firm = Firm.objects.system()
            AuditEntry.objects.create(firm=firm, act="a", target_id="1")

        with all_firms("test"):
            note()
        call_command("flush", interactive=False, verbosity=0)
        with all_firms("test"):
            assert not AuditEntry.objects.exists()
            note()
            try:
                AuditEntry.objects.all().delete()
            except DatabaseError as error:
                print(error)
    """)
    assert "append-only" in told


def test_a_rehearsal_lists_e_mails_whichever_setting_names_their_backend(shop: Shop) -> None:
    # `startproject` of Django 6.1 writes MAILERS; earlier ones have EMAIL_BACKEND.
    shop.manage("makemigrations", "catalogue")
    shop.manage("migrate")
    shop.python("""
        from jobs.queue import enqueue
        # Earlier ones send to a mail server, and this machine may have none.
        enqueue("greet", {"name": "by mail"}, max_attempts=1)
    """)
    shop.manage("runworker", "--burst")
    (letter,) = shop.read("dlq", "list")["results"]
    report = shop.read("dlq", "rehearse", letter["id"])
    assert report["outcome"] == "dead_lettered"
    assert [(call["kind"], call["target"]) for call in report["calls"]] == [
        ("email", "1 recipient")
    ]


def test_each_company_of_a_table_that_exists_already_is_a_firm(shop: Shop) -> None:
    shop.append("shop/catalogue/models.py", COMPANIES)
    shop.append("shop/settings.py", 'TENANTS_COMPANY_MODEL = "catalogue.Company"')
    shop.manage("makemigrations", "catalogue")
    shop.manage("migrate")
    told = shop.python("""
        from jobs.models import JobQueue
        from jobs.queue import enqueue
        from shop.catalogue.models import Company
        from tenants.companies import company_of, firm_of
        from tenants.errors import MissingTenant
        from tenants.models import Firm
        from tenants.scope import firm_scope

        one = Company.objects.create(title="One")
        two, three = Company.objects.bulk_create([Company(title="Two"), Company(title="Three")])
        for company in (one, two, three):
            enqueue("greet", {"name": company.title}, firm=firm_of(company))
        with firm_scope(firm_of(two)):
            assert JobQueue.objects.get().payload["name"] == "Two"
        assert company_of(firm_of(three)) == three
        one.title = "First"
        one.save()
        assert firm_of(one).name == "First"
        three.delete()
        assert [firm.name for firm in Firm.objects.filter(active=False)] == ["Three"]
        try:
            enqueue("greet", {"name": "whose"})
        except MissingTenant as error:
            print(error)
    """)
    assert "there are several firms: pass `firm=`" in told
    shop.manage("runworker", "--burst")
    jobs = shop.read("jobs", "list")["results"]
    ended = {job["firm"]: job["status"] for job in jobs}
    # The firm of the deleted company is inactive, so its job waits.
    assert ended == {
        "company-1": "completed",
        "company-2": "completed",
        "company-3": "pending",
    }


def test_a_router_keeps_the_queue_off_a_second_database(
    shop: Shop, tmp_path: Path, django_db_blocker: DjangoDbBlocker
) -> None:
    shop.write(
        "shop/routers.py",
        """
        class Router:
            def allow_migrate(self, db, app_label, **hints):
                return db == "default" or app_label not in ("tenants", "jobs")
        """,
    )
    with django_db_blocker.unblock(), empty_database("second", tmp_path) as url:
        second = dict(environ.Env.db_url_config(url))
        shop.append("shop/settings.py", f'DATABASES["second"] = {second!r}')
        shop.append("shop/settings.py", 'DATABASE_ROUTERS = ["shop.routers.Router"]')
        shop.manage("makemigrations", "catalogue")
        shop.manage("migrate", "--database", "second")
        shop.manage("migrate", "--database", "second", "jobs", "zero")
        told = shop.python("""
            from django.db import connections
            print(connections["second"].introspection.table_names())
        """)
    assert "catalogue_customer" in told
    assert "jobs_" not in told


def test_a_projects_data_is_dumped_and_loaded_with_its_jobs(shop: Shop) -> None:
    shop.manage("makemigrations", "catalogue")
    shop.manage("migrate")
    shop.manage("create_firm", "Acme", "--slug", "acme")
    shop.python("""
        from jobs.queue import enqueue
        enqueue("greet", {"name": "Ada"})
    """)
    before = shop.read("jobs", "list")["results"]
    shop.manage("dumpdata", "-e", "contenttypes", "-e", "auth.permission", "-o", "all.json")
    shop.manage("flush", "--no-input")
    assert shop.read("jobs", "list")["results"] == []
    shop.manage("loaddata", "all.json")
    shop.manage("runworker", "--burst")
    (job,) = shop.read("jobs", "list")["results"]
    assert (job["job_id"], job["firm"]) == (before[0]["job_id"], "acme")
    assert job["status"] == "completed"


def test_what_cannot_work_ends_by_name(shop: Shop) -> None:
    shop.manage("makemigrations", "catalogue")
    # A worker exits if the database lacks the tables of its version.
    said = shop.manage("runworker", exit_code=1)
    assert "worker.broken thread=claim" in said
    assert re.search(r"jobs_\w+.*: run manage\.py migrate", said)
    (shop.folder / "jobs").mkdir()
    (shop.folder / "jobs" / "__init__.py").touch()
    assert f"{shop.folder / 'jobs'} hides the queue's package 'jobs'" in shop.manage(
        "check", exit_code=1
    )


def test_the_install_page_has_these_steps() -> None:
    page = (ROOT / "docs" / "install.md").read_text()
    for step in (
        "pip install mailroom_jobs-*.whl",
        'INSTALLED_APPS = ["tenants", "jobs",',
        "manage.py migrate",
        '@job("greet", category="notifications", payload=Greeting)',
        "manage.py runworker",
        'TENANTS_COMPANY_MODEL = "',
    ):
        assert step in page
