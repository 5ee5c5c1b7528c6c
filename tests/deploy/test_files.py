"""Checks the image, compose.yaml and deploy/ without Docker and without a running systemd."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.architecture.test_documents import variables
from tests.support.paths import ROOT
from tests.support.web import web_process

pytestmark = pytest.mark.req("E-04")

DEPLOY = ROOT / "deploy"
AT_THE_TOP = [ROOT / "Dockerfile", ROOT / ".dockerignore", ROOT / "compose.yaml"]
FILES = [*AT_THE_TOP, *sorted(path for path in DEPLOY.rglob("*") if path.is_file())]
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
GUNICORN = ["gunicorn", "config.wsgi", "--workers", "2", "--threads", "4"]


def read(name: str) -> str:
    return (DEPLOY / name).read_text("utf-8")


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
    return found


def without_bind(command: str) -> list[str]:
    """Return the command's words without its address and the folder of its program."""
    words = re.sub(r"--bind \S+ ?", "", command.removeprefix("exec ")).split()
    return [Path(words[0]).name, *words[1:]]


def dockerfile() -> str:
    return (ROOT / "Dockerfile").read_text("utf-8")


def image_command() -> list[str]:
    found: list[str] = json.loads(re.findall(r"^CMD (.*)$", dockerfile(), re.MULTILINE)[-1])
    return found


def test_the_image_is_small_and_runs_as_nobody_special() -> None:
    text = dockerfile()
    last = text.rpartition("\nFROM ")[2]
    assert last.startswith("python:3.11-slim")
    assert "pip install" not in last
    assert re.search(r"^USER mailroom$", last, re.MULTILINE)
    assert "--require-hashes" in text
    copied = set(re.findall(r"^COPY (\w[\w.]*) ", last, re.MULTILINE))
    allowed = {
        line[1:]
        for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines()
        if line[0] == "!"
    }
    assert copied == allowed - {"requirements"}
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
    assert packages < copied


def test_the_image_compiles_what_it_runs(tmp_path: Path) -> None:
    build, _, last = dockerfile().rpartition("\nFROM ")
    assert re.search(r"python -m compileall .* /venv/lib$", build, re.MULTILINE)
    assert re.search(r"python -m compileall .* /usr/local/lib/python3.11 \\$", last, re.MULTILINE)
    (ours,) = re.findall(r"python -m (compileall .* \.)$", last, re.MULTILINE)
    assert last.index(ours) > last.rindex("\nCOPY ")
    shutil.copytree(ROOT / "tenants", tmp_path / "tenants", ignore=lambda *_: {"__pycache__"})
    subprocess.run([sys.executable, "-m", *ours.split()], cwd=tmp_path, check=True)
    sources = {path.stem for path in tmp_path.rglob("*.py")}
    assert {path.name.partition(".")[0] for path in tmp_path.rglob("*.pyc")} == sources


def test_compose_starts_database_migrations_web_and_worker_in_this_order() -> None:
    services = compose()["services"]
    assert set(services) == {"db", "migrate", "web", "worker"}
    assert services["migrate"]["depends_on"]["db"]["condition"] == "service_healthy"
    for name in ("web", "worker"):
        waits = services[name]["depends_on"]["migrate"]["condition"]
        assert waits == "service_completed_successfully"
        assert services[name]["healthcheck"]
    assert services["worker"]["command"][:3] == ["python", "manage.py", "runworker"]
    assert services["migrate"]["command"] == ["python", "manage.py", "migrate"]
    mounted = services["db"]["volumes"][1].split(":")[0]
    assert (ROOT / mounted).is_file()
    assert services["web"]["build"] == "."


def test_any_other_variable_comes_from_a_file() -> None:
    services = compose()["services"]
    for name in ("migrate", "web", "worker"):
        assert services[name]["env_file"] == [{"path": "mailroom.env", "required": False}]
    assert "env_file" not in services["db"]
    assert {"/.env", "/mailroom.env"} <= set((ROOT / ".gitignore").read_text("utf-8").split())


def test_every_setting_that_a_file_gives_is_one_of_ours() -> None:
    given = set(compose()["services"]["web"]["environment"])
    given |= set(re.findall(r"^([A-Z_]+)=", read("mailroom.env.example"), re.MULTILINE))
    assert given <= variables()
    assert given >= {"DATABASE_URL", "SECRET_KEY", "REQUIRE_RLS", "SECURE_PROXY_SSL_HEADER"}


def test_every_way_starts_the_web_process_alike() -> None:
    procfile = dict(line.split(": ", 1) for line in read("Procfile").splitlines())
    unit = re.findall(r"^ExecStart=(.*)$", read("systemd/mailroom-web.service"), re.MULTILINE)
    commands = [" ".join(image_command()), procfile["web"], *unit]
    assert [without_bind(command) for command in commands] == [GUNICORN] * 3
    assert procfile["release"] == "python manage.py migrate"
    assert procfile["worker"].startswith("exec python manage.py runworker")


@pytest.mark.processes
def test_the_documented_command_serves(transactional_db: None, tmp_path: Path) -> None:
    with web_process(tmp_path / "web.log", *GUNICORN[2:]) as web:
        assert web.request("GET", "/healthz").status == 200
        assert json.loads(web.request("GET", "/readyz").body)["status"] == "ready"
        assert web.request("GET", "/admin/login/").status == 200
        assert web.request("GET", "/static/interfaces/admin.css").status == 200


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze")
@pytest.mark.parametrize("unit", UNITS, ids=lambda path: path.stem)
def test_systemd_accepts_the_units(unit: Path, tmp_path: Path) -> None:
    # `systemd-analyze verify` looks for the service's program, which is not installed here.
    copy = tmp_path / unit.name
    copy.write_text(re.sub(r"/srv/mailroom/\S*/(python|gunicorn)", "/bin/true", unit.read_text()))
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True
    )
    complaints = [line for line in checked.stderr.splitlines() if unit.name in line]
    assert (checked.returncode, complaints) == (0, [])


def test_a_worker_has_time_to_end() -> None:
    unit = read("systemd/mailroom-worker.service")
    assert int(re.findall(r"TimeoutStopSec=(\d+)", unit)[0]) > 65
    assert int(compose()["services"]["worker"]["stop_grace_period"].removesuffix("s")) > 65


def test_the_proxy_says_what_it_must() -> None:
    text = read("nginx.conf")
    for header in ("Host $host", "X-Forwarded-Proto $scheme", "X-Forwarded-For"):
        assert f"proxy_set_header {header}" in text
    assert text.count("{") == text.count("}")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_file_names_a_package_index_or_holds_a_secret(path: Path) -> None:
    text = path.read_text("utf-8")
    assert not re.search(r"index-url|extra-index|pypi|trusted-host", text, re.IGNORECASE)
    assert not re.search(r"(PASSWORD|SECRET_KEY)[=:] ?[A-Za-z0-9]{16,}", text)


def test_every_file_is_documented() -> None:
    text = (ROOT / "docs" / "operations.md").read_text("utf-8")
    names = {path.name for path in FILES} - {"Dockerfile", ".dockerignore"}
    assert {name for name in names if name not in text} == set()


@pytest.mark.parametrize("path", [DEPLOY / "create-roles.sh", ROOT / "docs" / "operations.md"])
def test_a_database_can_store_every_text_whatever_the_locale_of_its_cluster(path: Path) -> None:
    created = re.findall(r"CREATE DATABASE [^;`]*", path.read_text("utf-8"))
    assert created
    assert all(one.endswith(" ENCODING 'UTF8' TEMPLATE template0") for one in created)
