"""The documented settings for a web process behind a proxy that speaks TLS."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.factories.tenants import UserFactory
from tests.support.paths import ROOT
from tests.support.web import Answer, WebProcess, web_process

pytestmark = [pytest.mark.req("E-01"), pytest.mark.processes]

ORIGIN = "https://mail.example.org"
PASSWORD = "a long password"
LOGIN = "/admin/login/"


def documented() -> dict[str, str]:
    """Return the variables that operations.md gives for a service behind a proxy."""
    text = (ROOT / "docs" / "operations.md").read_text("utf-8")
    section = text.partition("## Behind a proxy\n")[2].partition("\n## ")[0]
    block = section.split("```")[1]
    variables = dict(re.findall(r"^([A-Z_]+)=(\S+)", block, re.MULTILINE))
    return {**variables, "SECRET_KEY": "k3y" * 20 + "of many letters"}


@pytest.fixture
def operator(transactional_db: None) -> str:
    """Return the name of somebody who can sign in."""
    return UserFactory(username="olga", password=PASSWORD, is_staff=True).username


def pages_through(web: WebProcess, username: str, **passed: str) -> tuple[Answer, Answer]:
    """Return the sign-in page and the answer to signing in, as the proxy passes both on."""
    page = web.request("GET", LOGIN, passed)
    cookies = "; ".join(value.partition(";")[0] for value in page.values("Set-Cookie"))
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', page.body)
    assert token is not None, page
    form = {"csrfmiddlewaretoken": token[1], "username": username, "password": PASSWORD}
    headers = {
        **passed,
        "Origin": ORIGIN,
        "Referer": f"{ORIGIN}{LOGIN}",
        "Cookie": cookies,
        "Content-Type": "application/x-www-form-urlencoded",
    }
    return page, web.request("POST", f"{LOGIN}?next=/admin/", headers, urlencode(form))


def test_the_deployment_check_finds_nothing_with_the_documented_variables(tmp_path: Path):
    command = [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "INFO"]
    own = {"DATABASE_URL": "", "VAR_DIR": str(tmp_path)}
    checked = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **own, **documented()},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert (checked.returncode, checked.stderr) == (0, ""), checked.stderr
    assert "no issues" in checked.stdout


def test_people_sign_in_through_the_proxy_with_the_documented_variables(
    operator: str, tmp_path: Path
):
    passed = {"Host": "mail.example.org", "X-Forwarded-For": "192.0.2.7"}
    with web_process(tmp_path / "web.log", **documented()) as web:
        page, signed_in = pages_through(web, operator, **passed, **{"X-Forwarded-Proto": "https"})
        plain = web.request("GET", LOGIN, {**passed, "X-Forwarded-Proto": "http"})
        probe = web.request("GET", "/healthz", passed)
    assert (signed_in.status, signed_in.values("Location")) == (302, ["/admin/"])
    cookies = [*page.values("Set-Cookie"), *signed_in.values("Set-Cookie")]
    assert {cookie.partition("=")[0] for cookie in cookies} == {"csrftoken", "sessionid"}
    assert all("; Secure" in cookie for cookie in cookies)
    assert page.values("Strict-Transport-Security") == ["max-age=3600; includeSubDomains; preload"]
    assert (plain.status, plain.values("Location")) == (301, [f"{ORIGIN}{LOGIN}"])
    assert probe.status == 200


@pytest.mark.parametrize(("origins", "status"), [("", 403), (ORIGIN, 302)])
def test_a_proxy_that_changes_the_host_needs_the_browsers_origin(
    operator: str, tmp_path: Path, origins: str, status: int
):
    variables = {
        **documented(),
        "ALLOWED_HOSTS": "web.internal",
        "CSRF_TRUSTED_ORIGINS": origins,
    }
    passed = {"Host": "web.internal", "X-Forwarded-Proto": "https"}
    with web_process(tmp_path / "web.log", **variables) as web:
        _, signed_in = pages_through(web, operator, **passed)
    assert signed_in.status == status
