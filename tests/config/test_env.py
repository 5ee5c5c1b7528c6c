"""The environment is read once, and a wrong value stops the process."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import config.env
from config.env import Env, EnvironmentInvalid, read_env
from tenants.key_ring import new_key


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """Give the test an environment with nothing of ours in it, and a project folder of its own."""
    for name in list(os.environ):
        if name not in ("PATH", "HOME", "LANG"):
            monkeypatch.delenv(name)
    monkeypatch.setattr(config.env, "BASE_DIR", tmp_path)
    return monkeypatch


@pytest.mark.req("E-01")
def test_nothing_needs_to_be_configured(environment, tmp_path):
    env = read_env()
    assert env.debug is False
    assert env.database["ENGINE"] == "django.db.backends.sqlite3"
    assert Path(env.database["NAME"]) == tmp_path / "var" / "mailroom.sqlite3"
    assert (env.job_lease_seconds, env.job_poll_seconds, env.job_retention_days) == (30, 1, 7)
    assert env.job_unknown_type_grace_seconds == 3600
    assert env.worker_concurrency == 3
    assert env.gmail_backend == "simulator"
    assert env.log_format == "console"
    assert env.email.backend == "django.core.mail.backends.console.EmailBackend"
    assert env.default_from_email == "mailroom@localhost"
    assert env.trusted_proxies == 0
    assert env.csrf_trusted_origins == []
    assert env.secure_proxy_ssl_header is None
    assert (env.secure_ssl_redirect, env.secure_cookies) == (False, False)
    assert env.secure_hsts_seconds == 0
    assert set(env.allowed_hosts) <= {"localhost", "127.0.0.1", "[::1]"}


@pytest.mark.req("E-01")
def test_no_key_lies_among_the_code_where_its_folder_is_empty(environment, tmp_path):
    environment.setenv("VAR_DIR", "")
    environment.chdir(tmp_path)
    read_env()
    assert [one.name for one in tmp_path.iterdir()] == ["var"]


@pytest.mark.req("E-01")
def test_each_variable_is_read(environment, tmp_path):
    for name, value in {
        "DATABASE_URL": "postgres://app:pw@db.example:5433/mail",
        "LISTEN_DATABASE_URL": "off",
        "SECRET_KEY": "x" * 60,
        "DEBUG": "1",
        "ALLOWED_HOSTS": "mail.example.org,localhost",
        "VAR_DIR": str(tmp_path / "elsewhere"),
        "LOG_FORMAT": "json",
        "LOG_LEVEL": "DEBUG",
        "JOB_LEASE_SECONDS": "1.5",
        "JOB_RETENTION_DAYS": "30",
        "WORKER_CONCURRENCY": "8",
    }.items():
        environment.setenv(name, value)
    env = read_env()
    assert env.database["ENGINE"] == "django.db.backends.postgresql"
    assert (env.database["HOST"], env.database["PORT"], env.database["NAME"]) == (
        "db.example", 5433, "mail",
    )  # fmt: skip
    assert env.listen_database_url == "off"
    assert env.secret_key == "x" * 60
    assert env.debug is True
    assert env.allowed_hosts == ["mail.example.org", "localhost"]
    assert env.var_dir == tmp_path / "elsewhere"
    assert env.var_dir.is_dir()
    assert (env.log_format, env.log_level) == ("json", "DEBUG")
    assert (env.job_lease_seconds, env.job_retention_days, env.worker_concurrency) == (1.5, 30, 8)


@pytest.mark.req("E-01")
def test_the_settings_behind_a_proxy_are_read(environment):
    environment.setenv(
        "CSRF_TRUSTED_ORIGINS", "https://mail.example.org,https://*.example.net:8443"
    )
    environment.setenv("SECURE_PROXY_SSL_HEADER", "X-Forwarded-Proto=https")
    environment.setenv("SECURE_SSL_REDIRECT", "1")
    environment.setenv("SECURE_COOKIES", "1")
    environment.setenv("SECURE_HSTS_SECONDS", "3600")
    environment.setenv("SECURE_HSTS_INCLUDE_SUBDOMAINS", "1")
    environment.setenv("SECURE_HSTS_PRELOAD", "1")
    env = read_env()
    assert env.csrf_trusted_origins == ["https://mail.example.org", "https://*.example.net:8443"]
    assert env.secure_proxy_ssl_header == ("HTTP_X_FORWARDED_PROTO", "https")
    assert env.secure_ssl_redirect is True
    assert env.secure_cookies is True
    assert env.secure_hsts_seconds == 3600
    assert env.secure_hsts_include_subdomains is True
    assert env.secure_hsts_preload is True


@pytest.mark.req("E-01")
@pytest.mark.parametrize(
    ("url", "port", "tls", "ssl"),
    [
        ("smtp://a%40b:p%3Aw%2F@mail.example.org", 25, False, False),
        ("smtp+tls://a%40b:p%3Aw%2F@mail.example.org", 587, True, False),
        ("smtp+ssl://a%40b:p%3Aw%2F@mail.example.org/", 465, False, True),
        ("smtp+tls://a%40b:p%3Aw%2F@mail.example.org:2525", 2525, True, False),
    ],
)
def test_mail_leaves_through_the_server_that_is_named(environment, url, port, tls, ssl):
    environment.setenv("EMAIL_URL", url)
    environment.setenv("DEFAULT_FROM_EMAIL", "Mailroom <mailroom@example.org>")
    env = read_env()
    email = env.email
    assert email.backend == "django.core.mail.backends.smtp.EmailBackend"
    assert (email.host, email.user, email.password) == ("mail.example.org", "a@b", "p:w/")
    assert (email.port, email.use_tls, email.use_ssl) == (port, tls, ssl)
    assert env.default_from_email == "Mailroom <mailroom@example.org>"
    assert "p:w/" not in repr(email)


@pytest.mark.req("E-01")
def test_a_server_wants_a_sender(environment):
    environment.setenv("EMAIL_URL", "smtp://mail.example.org")
    with pytest.raises(EnvironmentInvalid, match="DEFAULT_FROM_EMAIL: must be set"):
        read_env()


WRONG = [
    ("EMAIL_URL", "mail.example.org"),
    ("EMAIL_URL", "console://x"),
    ("EMAIL_URL", "smtp://"),
    ("EMAIL_URL", "smtps://user:hunter2@mail.example.org"),
    ("EMAIL_URL", "smtp://user:hunter2@mail.example.org:hunter2"),
    ("EMAIL_URL", "smtp://user:hunter2@mail.example.org:99999"),
    ("EMAIL_URL", "smtp://hunter2@mail.example.org"),
    ("EMAIL_URL", "smtp://user:hun/ter2@mail.example.org"),
    ("EMAIL_URL", "smtp://user:hun[ter2@mail.example.org"),
    ("EMAIL_URL", "smtp://mail.example.org/?timeout=3"),
    ("DEFAULT_FROM_EMAIL", "nobody"),
    ("DEFAULT_FROM_EMAIL", "A <a@b.example>\nBcc: c@d.example"),
    ("TRUSTED_PROXIES", "-1"),
    ("TRUSTED_PROXIES", "many"),
    ("CSRF_TRUSTED_ORIGINS", "mail.example.org"),
    ("CSRF_TRUSTED_ORIGINS", "https://mail.example.org,ftp://mail.example.org"),
    ("CSRF_TRUSTED_ORIGINS", "https://mail.example.org/admin/"),
    ("SECURE_PROXY_SSL_HEADER", "X-Forwarded-Proto"),
    ("SECURE_PROXY_SSL_HEADER", "HTTP_X_FORWARDED_PROTO=https"),
    ("SECURE_PROXY_SSL_HEADER", "X-Forwarded-Proto: https"),
    ("SECURE_SSL_REDIRECT", "perhaps"),
    ("SECURE_COOKIES", "perhaps"),
    ("SECURE_HSTS_SECONDS", "-1"),
    ("SECURE_HSTS_SECONDS", "a year"),
    ("SECURE_HSTS_INCLUDE_SUBDOMAINS", "perhaps"),
    ("SECURE_HSTS_PRELOAD", "perhaps"),
    ("DATABASE_URL", "mysql://localhost/app"),
    ("DATABASE_URL", "not a database"),
    ("DATABASE_URL", "postgres://app@db.example/"),
    ("DATABASE_URL", "postgres://app@db.example"),
    ("DEBUG", "perhaps"),
    ("LOG_FORMAT", "xml"),
    ("LOG_LEVEL", "LOUD"),
    ("JOB_LEASE_SECONDS", "soon"),
    ("JOB_LEASE_SECONDS", "0"),
    ("JOB_LEASE_SECONDS", "-1"),
    ("JOB_LEASE_SECONDS", "inf"),
    ("JOB_LEASE_SECONDS", "nan"),
    ("JOB_LEASE_SECONDS", "1e-9"),
    ("JOB_POLL_SECONDS", "1e-9"),
    ("JOB_POLL_SECONDS", "nan"),
    ("JOB_ISOLATED_MEMORY_MB", "1"),
    ("JOB_POLL_SECONDS", "x"),
    ("JOB_RETENTION_DAYS", "-7"),
    ("JOB_RETENTION_DAYS", "0.5"),
    ("JOB_UNKNOWN_TYPE_GRACE_SECONDS", "x"),
    ("WORKER_CONCURRENCY", "0"),
    ("WORKER_CONCURRENCY", "2.5"),
    ("GMAIL_BACKEND", "yahoo"),
    ("FIELD_ENCRYPTION_KEYS", "hunter2"),
    ("GMAIL_API_BASE", "gmail.example.org"),
    ("GMAIL_API_BASE", "http://gmail.example.org"),
    ("GOOGLE_OAUTH_BASE", "ftp://gmail.example.org"),
    ("GOOGLE_REDIRECT_URI", "http://mail.example.org/oauth/"),
    ("GMAIL_PUBSUB_TOPIC", "gmail"),
    ("SNOOZE_LABEL", "inbox"),
    ("SNOOZE_LABEL", "x" * 226),
    ("PUBLIC_URL", "http://mail.example.org"),
    ("DISCORD_WEBHOOK_URL", "discord"),
    ("DISCORD_PUBLIC_KEY", "ab12"),
    ("DISCORD_USERS", "ada@acme.example"),
    ("SYNC_FULL_DAYS", "x"),
    ("REQUIRE_RLS", "enabled"),
    ("REQUIRE_RLS", "ture"),
    ("LISTEN_DATABASE_URL", "hunter2"),
    ("LISTEN_DATABASE_URL", "mysql://user:hunter2@db.example/mail"),
    ("JOB_LEASE_SECONDS", "1e308"),
    ("JOB_RETENTION_DAYS", "9" * 30),
    ("WORKER_CONCURRENCY", "9" * 5000),
    ("WORKER_CONCURRENCY", "1000001"),
    ("SYNC_FULL_INTERVAL_HOURS", "438289"),
    ("SECURE_HSTS_SECONDS", "1577836801"),
    ("LABEL_BACKLOG_DAYS", "18263"),
]


@pytest.mark.req("E-01")
def test_blanks_around_what_is_listed_do_not_count(environment):
    environment.setenv("ALLOWED_HOSTS", " localhost, 127.0.0.1 ,")
    environment.setenv("CSRF_TRUSTED_ORIGINS", "https://a.example, https://b.example")
    env = read_env()
    assert env.allowed_hosts == ["localhost", "127.0.0.1"]
    assert env.csrf_trusted_origins == ["https://a.example", "https://b.example"]
    environment.setenv("ALLOWED_HOSTS", " ")
    assert read_env().allowed_hosts == ["localhost", "127.0.0.1", "[::1]"]


@pytest.mark.req("E-01", "T-02")
@pytest.mark.parametrize("yes", ["1", "true", "on"])
def test_row_level_security_can_be_required(environment, yes):
    environment.setenv("REQUIRE_RLS", yes)
    assert read_env().require_rls


@pytest.mark.req("E-01")
@pytest.mark.parametrize("name", ["SITE_URL", "PUBLIC_URL"])
def test_one_of_the_services_own_addresses_is_enough(environment, name):
    assert (read_env().site_url, read_env().public_url) == ("", "")
    environment.setenv(name, "https://mail.example.org/")
    assert {read_env().site_url, read_env().public_url} == {"https://mail.example.org"}


@pytest.mark.req("E-01")
def test_a_service_of_libpq_may_name_the_database(environment):
    environment.setenv("DATABASE_URL", "postgres:///?service=mailroom")
    database = read_env().database
    assert (database["NAME"], database["OPTIONS"]["service"]) == ("", "mailroom")


@pytest.mark.req("E-01")
def test_links_in_mail_may_lead_elsewhere_than_those_of_the_queue(environment):
    environment.setenv("SITE_URL", "https://admin.example.org")
    environment.setenv("PUBLIC_URL", "https://mail.example.org")
    env = read_env()
    assert (env.site_url, env.public_url) == (
        "https://admin.example.org",
        "https://mail.example.org",
    )


@pytest.mark.req("E-01")
@pytest.mark.parametrize(("name", "value"), WRONG)
def test_a_wrong_value_stops_the_process_with_the_variables_name(environment, name, value):
    environment.setenv(name, value)
    with pytest.raises(EnvironmentInvalid, match=f"environment variable {name}:") as caught:
        read_env()
    assert caught.value.name == name
    assert "hunter2" not in str(caught.value)


@pytest.mark.req("E-01")
def test_a_service_open_to_others_must_bring_its_own_secret(environment, tmp_path):
    environment.setenv("ALLOWED_HOSTS", "mail.example.org")
    with pytest.raises(EnvironmentInvalid, match="SECRET_KEY"):
        read_env()
    assert not (tmp_path / "var" / "secret_key").exists()


@pytest.mark.req("E-01")
def test_a_local_service_makes_a_key_once_that_only_its_owner_can_read(environment, tmp_path):
    with ThreadPoolExecutor(8) as threads:
        keys = {env.secret_key for env in threads.map(lambda _: read_env(), range(8))}
    assert len(keys) == 1
    assert len(keys.pop()) >= 50
    kept = sorted((tmp_path / "var").iterdir())
    assert [path.name for path in kept] == ["field_encryption_key", "secret_key"]
    assert {stat.S_IMODE(path.stat().st_mode) for path in kept} == {0o600}


@pytest.mark.req("M-01")
def test_the_google_backend_wants_its_client_and_keys(environment):
    environment.setenv("GOOGLE_CLIENT_ID", "id.apps.example")
    with pytest.raises(EnvironmentInvalid, match="GOOGLE_CLIENT_SECRET: must be set"):
        read_env()
    environment.setenv("GOOGLE_CLIENT_SECRET", "hunter2")
    env = read_env()
    assert env.gmail_backend == "google"
    assert env.google_client == ("id.apps.example", "hunter2")
    assert len(env.field_encryption_keys) == 1
    assert "hunter2" not in repr(env)

    environment.setenv("ALLOWED_HOSTS", "mail.example.org")
    environment.setenv("SECRET_KEY", "x" * 60)
    with pytest.raises(EnvironmentInvalid, match="FIELD_ENCRYPTION_KEYS: must be set"):
        read_env()
    keys = (new_key(), new_key())
    environment.setenv("FIELD_ENCRYPTION_KEYS", ", ".join(keys))
    assert read_env().field_encryption_keys == keys
    environment.setenv("GMAIL_BACKEND", "simulator")
    environment.delenv("FIELD_ENCRYPTION_KEYS")
    assert read_env().field_encryption_keys == ()


@pytest.mark.req("M-02")
def test_gmail_may_be_on_this_machine_without_tls(environment):
    environment.setenv("GMAIL_API_BASE", "http://127.0.0.1:8085/")
    environment.delenv("OAUTHLIB_INSECURE_TRANSPORT", raising=False)
    assert read_env().gmail_api_base == "http://127.0.0.1:8085"
    assert os.environ["OAUTHLIB_INSECURE_TRANSPORT"] == "1"


@pytest.mark.req("E-01")
def test_a_printed_env_shows_no_secret(environment):
    environment.setenv("SECRET_KEY", "do-not-show-this")
    assert "do-not-show-this" not in repr(read_env())
    assert Env.__dataclass_params__.frozen  # type: ignore[attr-defined]  # not in typeshed


@pytest.mark.req("E-01", "M-05")
@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ("GMAIL_PUBSUB_AUDIENCE", "GMAIL_PUBSUB_SERVICE_ACCOUNT"),
        ("GMAIL_PUBSUB_SERVICE_ACCOUNT", "GMAIL_PUBSUB_AUDIENCE"),
    ],
)
def test_a_push_subscription_is_named_whole_or_not_at_all(environment, given, missing):
    environment.setenv(given, "one")
    with pytest.raises(EnvironmentInvalid, match=missing):
        read_env()
    environment.setenv(missing, "other")
    assert set(read_env().gmail_push_subscription) == {"one", "other"}
