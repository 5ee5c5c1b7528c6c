"""Reads the environment, once, into a frozen `Env`; nothing else touches `os.environ`.

A wrong or missing value stops the process with the variable's name.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import environ
from django.core.exceptions import ImproperlyConfigured

from config.email import CONSOLE, Email, check_sender, parse_email_url

BASE_DIR = Path(__file__).resolve().parent.parent
LOCAL_SENDER = "mailroom@localhost"
LOOPBACK_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
DATABASE_SCHEMES = ("postgres://", "postgresql://", "sqlite:///")
TRUE_WORDS = ("1", "true", "yes", "on")
FALSE_WORDS = ("0", "false", "no", "off")

T = TypeVar("T")


class EnvironmentInvalid(ImproperlyConfigured):
    """An environment variable has a value this service cannot use."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"environment variable {name}: {reason}")
        self.name = name


@dataclass(frozen=True, repr=False)
class Env:
    """Every setting that comes from outside, parsed and checked."""

    debug: bool
    secret_key: str
    allowed_hosts: list[str]
    database: dict[str, Any]
    listen_database_url: str
    require_rls: bool
    trusted_proxies: int
    email: Email
    default_from_email: str
    var_dir: Path
    log_format: str
    log_level: str
    job_isolated_memory_mb: int
    job_lease_seconds: float
    job_poll_seconds: float
    job_retention_days: int
    job_purge_interval_hours: int
    job_unknown_type_grace_seconds: int
    worker_concurrency: int
    gmail_backend: str
    sync_full_days: int
    sync_full_interval_hours: int
    sync_fallback_interval_minutes: int


def read_env() -> Env:
    """Parse `os.environ` (and `.env` beside manage.py, when there is one).

    Raises:
        EnvironmentInvalid: a variable has an unusable value, or a secret is missing on a
            service that answers to more than loopback addresses.
    """
    source = environ.Env()
    environ.Env.read_env(str(BASE_DIR / ".env"))
    var_dir = Path(_read("VAR_DIR", lambda name: source.str(name, default=str(BASE_DIR / "var"))))
    var_dir.mkdir(parents=True, exist_ok=True)
    email = _read(
        "EMAIL_URL", lambda name: parse_email_url(source.str(name, default="") or CONSOLE)
    )
    allowed_hosts = _read("ALLOWED_HOSTS", lambda name: source.list(name, default=LOOPBACK_HOSTS))
    return Env(
        debug=_truth(source, "DEBUG"),
        secret_key=_secret_key(source, var_dir, allowed_hosts),
        allowed_hosts=allowed_hosts,
        database=_database(source, var_dir),
        listen_database_url=_read("LISTEN_DATABASE_URL", lambda name: source.str(name, default="")),
        require_rls=_read("REQUIRE_RLS", lambda name: source.bool(name, default=False)),
        trusted_proxies=_count(source, "TRUSTED_PROXIES", 0, least=0),
        email=email,
        default_from_email=_sender(source, email),
        var_dir=var_dir,
        log_format=_choice(source, "LOG_FORMAT", ("console", "json"), "console"),
        log_level=_choice(
            source, "LOG_LEVEL", ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"), "INFO"
        ),
        job_isolated_memory_mb=_count(source, "JOB_ISOLATED_MEMORY_MB", 2048),
        job_lease_seconds=_positive(source, "JOB_LEASE_SECONDS", 30.0),
        job_poll_seconds=_positive(source, "JOB_POLL_SECONDS", 1.0),
        job_retention_days=_count(source, "JOB_RETENTION_DAYS", 7),
        job_purge_interval_hours=_count(source, "JOB_PURGE_INTERVAL_HOURS", 24),
        job_unknown_type_grace_seconds=_count(source, "JOB_UNKNOWN_TYPE_GRACE_SECONDS", 3600),
        worker_concurrency=_count(source, "WORKER_CONCURRENCY", 3),
        gmail_backend=_choice(source, "GMAIL_BACKEND", ("simulator",), "simulator"),
        sync_full_days=_count(source, "SYNC_FULL_DAYS", 10),
        sync_full_interval_hours=_count(source, "SYNC_FULL_INTERVAL_HOURS", 1),
        sync_fallback_interval_minutes=_count(source, "SYNC_FALLBACK_INTERVAL_MINUTES", 15),
    )


def _read(name: str, parse: Callable[[str], T]) -> T:
    try:
        return parse(name)
    except (ValueError, TypeError, ImproperlyConfigured) as error:
        raise EnvironmentInvalid(name, str(error) or "not a usable value") from error


def _choice(source: environ.Env, name: str, choices: tuple[str, ...], default: str) -> str:
    value: str = _read(name, lambda key: source.str(key, default=default))
    if value not in choices:
        raise EnvironmentInvalid(name, f"must be one of {', '.join(choices)}; it is {value!r}")
    return value


def _positive(source: environ.Env, name: str, default: float) -> float:
    raw = _read(name, lambda key: source.str(key, default=str(default)))
    try:
        value = float(raw)
    except ValueError:
        raise EnvironmentInvalid(name, f"must be a number; it is {raw!r}") from None
    if not 0 < value < float("inf"):
        raise EnvironmentInvalid(name, f"must be above zero; it is {raw!r}")
    return value


def _count(source: environ.Env, name: str, default: int, *, least: int = 1) -> int:
    raw = _read(name, lambda key: source.str(key, default=str(default)))
    if not (raw.isascii() and raw.isdigit() and int(raw) >= least):
        raise EnvironmentInvalid(name, f"must be a whole number from {least}; it is {raw!r}")
    return int(raw)


def _truth(source: environ.Env, name: str) -> bool:
    words = {**dict.fromkeys(TRUE_WORDS, True), **dict.fromkeys(FALSE_WORDS, False)}
    raw = _read(name, lambda key: source.str(key, default="false"))
    if raw.lower() not in words:
        raise EnvironmentInvalid(name, f"must be one of {', '.join(words)}; it is {raw!r}")
    return words[raw.lower()]


def _sender(source: environ.Env, email: Email) -> str:
    raw: str = _read("DEFAULT_FROM_EMAIL", lambda name: source.str(name, default=""))
    if not raw and email.leaves:
        raise EnvironmentInvalid("DEFAULT_FROM_EMAIL", "must be set when EMAIL_URL names a server")
    return _read("DEFAULT_FROM_EMAIL", lambda _: check_sender(raw or LOCAL_SENDER))


def _database(source: environ.Env, var_dir: Path) -> dict[str, Any]:
    default = f"sqlite:///{var_dir / 'mailroom.sqlite3'}"
    # Empty means unset: `DATABASE_URL= make …` chooses the default.
    url = _read("DATABASE_URL", lambda name: source.str(name, default="")) or default
    if not url.startswith(DATABASE_SCHEMES):
        raise EnvironmentInvalid("DATABASE_URL", f"must start with {' or '.join(DATABASE_SCHEMES)}")
    return _read("DATABASE_URL", lambda _: dict(environ.Env.db_url_config(url)))


def _secret_key(source: environ.Env, var_dir: Path, allowed_hosts: list[str]) -> str:
    """Return SECRET_KEY, or a generated one kept under var/ while only loopback is served."""
    key: str = _read("SECRET_KEY", lambda name: source.str(name, default=""))
    if key:
        return key
    if not set(allowed_hosts) <= set(LOOPBACK_HOSTS):
        raise EnvironmentInvalid(
            "SECRET_KEY", "must be set when ALLOWED_HOSTS names more than loopback addresses"
        )
    return _generated_key(var_dir / "secret_key")


def _generated_key(path: Path) -> str:
    if not path.exists():
        draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
        draft.touch(mode=0o600)
        draft.write_text(secrets.token_urlsafe(50), encoding="ascii")
        with contextlib.suppress(FileExistsError):
            # A hard link fails where the file exists: of processes starting together one wins.
            path.hardlink_to(draft)
        draft.unlink()
    return path.read_text(encoding="ascii").strip()
