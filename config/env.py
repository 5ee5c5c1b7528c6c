"""Reads the environment, once, into a frozen `Env`; nothing else touches `os.environ`.

A wrong or missing value stops the process with the variable's name.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import environ
from django.core.exceptions import ImproperlyConfigured

from config.database import checked_name, listen_address
from config.discord import public_key, users
from config.email import CONSOLE, Email, check_sender, parse_email_url
from config.generated_key import generated_key
from config.llm import LLM, read_llm
from config.values import EnvironmentInvalid, number_of_use, parse_web_address, whole_number
from tenants.key_ring import KeyRing, new_key

BASE_DIR = Path(__file__).resolve().parent.parent
LOCAL_SENDER = "mailroom@localhost"
LOOPBACK_HOSTS = ["localhost", "127.0.0.1", "[::1]"]
DATABASE_SCHEMES = ("postgres://", "postgresql://", "sqlite:///")
# A scheme, a host that may begin with a wildcard, and a port.
ORIGIN = r"https?://(\*\.)?[A-Za-z0-9.\-\[\]:]+"
HOST_AND_PORT = r"([a-z0-9.\-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?"
HEADER_AND_VALUE = r"[A-Za-z][A-Za-z0-9-]*=[!-~]+"
SYSTEM_LABELS = "INBOX|SENT|DRAFT|TRASH|SPAM|STARRED|UNREAD|IMPORTANT|CHAT"
OWN_LABEL = (rf"(?i)(?!({SYSTEM_LABELS})$).{{1,225}}", "the name of a label of your own")
CLAMD = (r"unix:/.+|tcp://[^/:\s]+:[0-9]{1,5}", "unix:/PATH or tcp://HOST:PORT")
PUBSUB_TOPIC = (r"projects/[^/\s]+/topics/[^/\s]+", "projects/PROJECT/topics/TOPIC")
LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
TRUE_WORDS = ("1", "true", "yes", "on")
FALSE_WORDS = ("0", "false", "no", "off")

T = TypeVar("T")

_environment = environ.Env()


def _read(name: str, parse: Callable[[str], T]) -> T:
    try:
        return parse(name)
    except (ValueError, TypeError, ImproperlyConfigured) as error:
        raise EnvironmentInvalid(name, str(error) or "not a usable value") from error


def _text(name: str, default: str = "") -> str:
    text: str = _read(name, partial(_environment.str, default=default))
    return text


def _choice(name: str, choices: tuple[str, ...], default: str) -> str:
    value = _text(name, default)
    if value not in choices:
        raise EnvironmentInvalid(name, f"must be one of {', '.join(choices)}; it is {value!r}")
    return value


def _positive(name: str, default: float) -> float:
    return number_of_use(name, _text(name, str(default)))


def _count(name: str, default: int, *, least: int = 1) -> int:
    return whole_number(name, _text(name, str(default)), least)


def _truth(name: str, default: str = "false") -> bool:
    words = {**dict.fromkeys(TRUE_WORDS, True), **dict.fromkeys(FALSE_WORDS, False)}
    raw = _text(name, default)
    if raw.lower() not in words:
        raise EnvironmentInvalid(name, f"must be one of {', '.join(words)}; it is {raw!r}")
    return words[raw.lower()]


def _listed(name: str) -> list[str]:
    """Return the parts of a comma-separated list, without blanks around them."""
    return [one.strip() for one in _text(name).split(",") if one.strip()]


def _allowed_hosts() -> list[str]:
    return _listed("ALLOWED_HOSTS") or LOOPBACK_HOSTS


def _list_of(name: str, pattern: str, what: str) -> list[str]:
    values = _listed(name)
    for value in values:
        if not re.fullmatch(pattern, value):
            raise EnvironmentInvalid(name, f"must be {what}; one is {value!r}")
    return values


def _proxy_header() -> tuple[str, str] | None:
    """Return the key of `request.META`, and its value for requests that were made over TLS."""
    form = "HEADER=VALUE, as in X-Forwarded-Proto=https"
    raw = _matching("SECURE_PROXY_SSL_HEADER", HEADER_AND_VALUE, form)
    if not raw:
        return None
    header, _, value = raw.partition("=")
    return f"HTTP_{header.upper().replace('-', '_')}", value


def _email() -> Email:
    return _read("EMAIL_URL", lambda name: parse_email_url(_text(name) or CONSOLE))


def _sender() -> str:
    raw = _text("DEFAULT_FROM_EMAIL")
    if not raw and _email().leaves:
        raise EnvironmentInvalid("DEFAULT_FROM_EMAIL", "must be set when EMAIL_URL names a server")
    return _read("DEFAULT_FROM_EMAIL", lambda _: check_sender(raw or LOCAL_SENDER))


def _var_dir() -> Path:
    # Empty means unset; otherwise generated keys would be stored in the current folder.
    var_dir = Path(_text("VAR_DIR") or BASE_DIR / "var")
    var_dir.mkdir(parents=True, exist_ok=True)
    return var_dir


def _database() -> dict[str, Any]:
    # Empty means unset, so that `DATABASE_URL= make …` chooses the default.
    url = _text("DATABASE_URL") or f"sqlite:///{_var_dir() / 'mailroom.sqlite3'}"
    if not url.startswith(DATABASE_SCHEMES):
        raise EnvironmentInvalid("DATABASE_URL", f"must start with {' or '.join(DATABASE_SCHEMES)}")
    return _read("DATABASE_URL", lambda _: checked_name(dict(environ.Env.db_url_config(url))))


def _secret_key() -> str:
    """Return SECRET_KEY, or a generated one kept under var/ while only loopback is served."""
    key = _text("SECRET_KEY")
    if not key and not set(_allowed_hosts()) <= set(LOOPBACK_HOSTS):
        raise EnvironmentInvalid(
            "SECRET_KEY", "must be set when ALLOWED_HOSTS names more than loopback addresses"
        )
    return key or generated_key(_var_dir() / "secret_key", lambda: secrets.token_urlsafe(50))


def _field_encryption_keys() -> tuple[str, ...]:
    """Return FIELD_ENCRYPTION_KEYS, or a generated key kept under var/ while only loopback is served.

    A service with other hosts in ALLOWED_HOSTS needs no key as long as it does not use Google.
    """
    keys = tuple(_listed("FIELD_ENCRYPTION_KEYS"))
    if not keys and set(_allowed_hosts()) <= set(LOOPBACK_HOSTS):
        keys = (generated_key(_var_dir() / "field_encryption_key", new_key),)
    if not keys and _gmail_backend() == "google":
        raise EnvironmentInvalid(
            "FIELD_ENCRYPTION_KEYS",
            "must be set when ALLOWED_HOSTS names more than loopback addresses and GMAIL_BACKEND "
            "is google; manage.py rotate_keys --new-key makes a key",
        )
    _read("FIELD_ENCRYPTION_KEYS", lambda _: KeyRing(keys))
    return keys


def _gmail_backend() -> str:
    default = "google" if _text("GOOGLE_CLIENT_ID") else "simulator"
    return _choice("GMAIL_BACKEND", ("simulator", "google"), default)


def _google_client() -> tuple[str, str]:
    """Return the OAuth client's id and secret, which may be empty if Google is not used."""
    client = (_text("GOOGLE_CLIENT_ID"), _text("GOOGLE_CLIENT_SECRET"))
    if _gmail_backend() == "google":
        for name, value in zip(("GOOGLE_CLIENT_ID", "GOOGLE_CLIENT_SECRET"), client, strict=True):
            if not value:
                raise EnvironmentInvalid(name, "must be set when GMAIL_BACKEND is google")
    return client


def _web_address(name: str, *others: str) -> str:
    address = _read(name, lambda _: parse_web_address(_text(name)))
    return address or (_web_address(*others) if others else "")


def _matching(name: str, pattern: str, what: str, default: str = "") -> str:
    text = _text(name, default).strip() or default
    if text and not re.fullmatch(pattern, text):
        raise EnvironmentInvalid(name, f"must be {what}; it is {text!r}")
    return text


def _push_subscription() -> tuple[str, str]:
    """Return the audience and the service account of pushed notifications; both or neither."""
    audience, account = _text("GMAIL_PUBSUB_AUDIENCE"), _text("GMAIL_PUBSUB_SERVICE_ACCOUNT")
    if bool(audience) != bool(account):
        missing = "SERVICE_ACCOUNT" if audience else "AUDIENCE"
        raise EnvironmentInvalid(f"GMAIL_PUBSUB_{missing}", "is missing: set both or neither")
    return audience, account


def _by(read: Callable[..., Any], *args: Any, **options: Any) -> Any:
    return field(default_factory=partial(read, *args, **options))


@dataclass(frozen=True, repr=False)
class Env:
    """Every setting that comes from outside, parsed and checked."""

    debug: bool = _by(_truth, "DEBUG")
    secret_key: str = field(default_factory=_secret_key)
    allowed_hosts: list[str] = field(default_factory=_allowed_hosts)
    database: dict[str, Any] = field(default_factory=_database)
    listen_database_url: str = _by(
        _read, "LISTEN_DATABASE_URL", lambda name: listen_address(_text(name))
    )
    embedded_worker: bool = _by(_truth, "EMBEDDED_WORKER")
    require_rls: bool = _by(_truth, "REQUIRE_RLS")
    trusted_proxies: int = _by(_count, "TRUSTED_PROXIES", 0, least=0)
    csrf_trusted_origins: list[str] = field(
        default_factory=partial(
            _list_of, "CSRF_TRUSTED_ORIGINS", ORIGIN, "origins such as https://mail.example.org"
        )
    )
    secure_proxy_ssl_header: tuple[str, str] | None = field(default_factory=_proxy_header)
    secure_ssl_redirect: bool = _by(_truth, "SECURE_SSL_REDIRECT")
    secure_cookies: bool = _by(_truth, "SECURE_COOKIES")
    secure_hsts_seconds: int = _by(_count, "SECURE_HSTS_SECONDS", 0, least=0)
    secure_hsts_include_subdomains: bool = _by(_truth, "SECURE_HSTS_INCLUDE_SUBDOMAINS")
    secure_hsts_preload: bool = _by(_truth, "SECURE_HSTS_PRELOAD")
    email: Email = field(default_factory=_email)
    default_from_email: str = field(default_factory=_sender)
    var_dir: Path = field(default_factory=_var_dir)
    log_format: str = _by(_choice, "LOG_FORMAT", ("console", "json"), "console")
    log_level: str = _by(_choice, "LOG_LEVEL", LOG_LEVELS, "INFO")
    job_isolated_memory_mb: int = _by(_count, "JOB_ISOLATED_MEMORY_MB", 2048)
    job_lease_seconds: float = _by(_positive, "JOB_LEASE_SECONDS", 30.0)
    job_poll_seconds: float = _by(_positive, "JOB_POLL_SECONDS", 1.0)
    job_retention_days: int = _by(_count, "JOB_RETENTION_DAYS", 7)
    job_purge_interval_hours: int = _by(_count, "JOB_PURGE_INTERVAL_HOURS", 24)
    job_unknown_type_grace_seconds: int = _by(_count, "JOB_UNKNOWN_TYPE_GRACE_SECONDS", 3600)
    site_url: str = _by(_web_address, "SITE_URL", "PUBLIC_URL")
    webhook_private_hosts: list[str] = field(
        default_factory=partial(
            _list_of, "WEBHOOK_PRIVATE_HOSTS", HOST_AND_PORT, "hosts in lower case, or with :port"
        )
    )
    alert_interval_seconds: int = _by(_count, "ALERT_INTERVAL_SECONDS", 60)
    alert_quiet_minutes: int = _by(_count, "ALERT_QUIET_MINUTES", 240)
    alert_unreviewed_hours: int = _by(_count, "ALERT_UNREVIEWED_HOURS", 24)
    alert_age_interval_minutes: int = _by(_count, "ALERT_AGE_INTERVAL_MINUTES", 15)
    worker_concurrency: int = _by(_count, "WORKER_CONCURRENCY", 3)
    field_encryption_keys: tuple[str, ...] = field(default_factory=_field_encryption_keys)
    gmail_backend: str = field(default_factory=_gmail_backend)
    google_client: tuple[str, str] = field(default_factory=_google_client)
    google_redirect_uri: str = _by(_web_address, "GOOGLE_REDIRECT_URI")
    gmail_api_base: str = _by(_web_address, "GMAIL_API_BASE")
    google_oauth_base: str = _by(_web_address, "GOOGLE_OAUTH_BASE")
    gmail_pubsub_topic: str = _by(_matching, "GMAIL_PUBSUB_TOPIC", *PUBSUB_TOPIC)
    gmail_push_subscription: tuple[str, str] = field(default_factory=_push_subscription)
    public_url: str = _by(_web_address, "PUBLIC_URL", "SITE_URL")
    discord_webhook_url: str = _by(_web_address, "DISCORD_WEBHOOK_URL")
    discord_public_key: str = _by(_read, "DISCORD_PUBLIC_KEY", lambda name: public_key(_text(name)))
    discord_users: tuple[tuple[str, str], ...] = _by(
        _read, "DISCORD_USERS", lambda name: users(_text(name))
    )
    rules_apply: str = _by(_choice, "RULES_APPLY", ("first", "all"), "first")
    watch_renew_interval_hours: int = _by(_count, "WATCH_RENEW_INTERVAL_HOURS", 24)
    labels_sync_interval_minutes: int = _by(_count, "LABELS_SYNC_INTERVAL_MINUTES", 60)
    reminders_interval_seconds: int = _by(_count, "REMINDERS_INTERVAL_SECONDS", 60)
    agents_interval_seconds: int = _by(_count, "AGENTS_INTERVAL_SECONDS", 60)
    onboarding_days: int = _by(_count, "ONBOARDING_DAYS", 7)
    onboarding_messages: int = _by(_count, "ONBOARDING_MESSAGES", 200)
    read_attachments: bool = _by(_truth, "READ_ATTACHMENTS", "true")
    attachment_max_mb: int = _by(_count, "ATTACHMENT_MAX_MB", 20)
    document_memory_mb: int = _by(_count, "DOCUMENT_MEMORY_MB", 512, least=256)
    document_seconds: int = _by(_count, "DOCUMENT_SECONDS", 30)
    clamd_url: str = _by(_matching, "CLAMD_URL", *CLAMD)
    llm: LLM = field(default_factory=partial(read_llm, _text))
    label_backlog_days: int = _by(_count, "LABEL_BACKLOG_DAYS", 14)
    snooze_label: str = _by(_matching, "SNOOZE_LABEL", *OWN_LABEL, "Mailroom/Snoozed")
    sync_full_days: int = _by(_count, "SYNC_FULL_DAYS", 10)
    sync_full_interval_hours: int = _by(_count, "SYNC_FULL_INTERVAL_HOURS", 1)
    sync_fallback_interval_minutes: int = _by(_count, "SYNC_FALLBACK_INTERVAL_MINUTES", 15)


def read_env() -> Env:
    """Parse `os.environ` (and `.env` beside manage.py, when there is one).

    Raises:
        EnvironmentInvalid: a variable has an unusable value, or a secret is missing on a
            service that answers to more than loopback addresses.
    """
    environ.Env.read_env(str(BASE_DIR / ".env"))
    env = Env()
    if f"{env.gmail_api_base} {env.google_oauth_base}".count("http://"):
        # oauthlib accepts plain http, here to a loopback address, only with this variable.
        os.environ["OAUTHLIB_INSECURE_TRANSPORT"] = "1"
    return env
