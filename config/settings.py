"""Django settings, built from `config.env` alone."""

from __future__ import annotations

from config.api import OPENAPI_SETTINGS, REST_FRAMEWORK_SETTINGS
from config.database import PREPARED_AT_USE, silence_options
from config.env import BASE_DIR, read_env
from config.logging import configure_structlog, logging_config
from config.unfold import UNFOLD_SETTINGS

ENV = read_env()

SECRET_KEY = ENV.secret_key
DEBUG = ENV.debug
ALLOWED_HOSTS = ENV.allowed_hosts
VAR_DIR = ENV.var_dir

CSRF_TRUSTED_ORIGINS = ENV.csrf_trusted_origins
CSRF_COOKIE_SECURE = ENV.secure_cookies
SESSION_COOKIE_SECURE = ENV.secure_cookies
SECURE_PROXY_SSL_HEADER = ENV.secure_proxy_ssl_header
SECURE_SSL_REDIRECT = ENV.secure_ssl_redirect
# Probes and scrapes connect to the process itself, without the proxy's TLS.
SECURE_REDIRECT_EXEMPT = ["^healthz$", "^readyz$", "^metrics$"]
SECURE_HSTS_SECONDS = ENV.secure_hsts_seconds
SECURE_HSTS_INCLUDE_SUBDOMAINS = ENV.secure_hsts_include_subdomains
SECURE_HSTS_PRELOAD = ENV.secure_hsts_preload

INSTALLED_APPS = [
    "unfold",
    "unfold.contrib.filters",
    "config.admin.AdminConfig",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "django_tasks",
    "interfaces",
    "tenants",
    "jobs",
    "mail",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "config.content_policy.ContentPolicyMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "interfaces.middleware.CorrelationMiddleware",
    "tenants.middleware.FirmScopeMiddleware",
]

ROOT_URLCONF = "config.urls"
WSGI_APPLICATION = "config.wsgi.application"
ASGI_APPLICATION = "config.asgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

DATABASES = {"default": ENV.database}
if ENV.database["ENGINE"].endswith("sqlite3"):
    DATABASES["default"]["OPTIONS"] = {
        "transaction_mode": "IMMEDIATE",
        "timeout": 20,
        # 4,000 pages (16 MB) between checkpoints, four times the default, because a single batch
        # writes over a thousand.
        "init_command": (
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA wal_autocheckpoint=4000;"
        ),
    }
    # A file, because the tests' worker processes must see the same rows.
    DATABASES["default"]["TEST"] = {"NAME": str(ENV.var_dir / "test.sqlite3")}
else:
    DATABASES["default"]["CONN_HEALTH_CHECKS"] = True
    DATABASES["default"]["CONN_MAX_AGE"] = None
    DATABASES["default"]["DISABLE_SERVER_SIDE_CURSORS"] = True
    # Options in DATABASE_URL take precedence.
    DATABASES["default"]["OPTIONS"] = {
        # With LISTEN_DATABASE_URL set, this may be a pooler, which loses prepared statements.
        "prepare_threshold": None if ENV.listen_database_url else PREPARED_AT_USE,
        **silence_options(ENV.job_lease_seconds),
        **ENV.database.get("OPTIONS", {}),
    }

DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]

# Functions with `@task` in any app run on the queue; any queue name is allowed.
TASKS = {"default": {"BACKEND": "jobs.tasks_backend.MailroomBackend", "QUEUES": []}}

LANGUAGE_CODE = "en-gb"
FORMAT_MODULE_PATH = "config.formats"
TIME_ZONE = "UTC"
USE_TZ = True
STATIC_URL = "static/"
WHITENOISE_USE_FINDERS = True
LOGIN_REDIRECT_URL = "admin:index"
LOGIN_URL = "admin:login"

EMAIL_BACKEND = ENV.email.backend
EMAIL_HOST = ENV.email.host
EMAIL_PORT = ENV.email.port
EMAIL_HOST_USER = ENV.email.user
EMAIL_HOST_PASSWORD = ENV.email.password
EMAIL_USE_TLS = ENV.email.use_tls
EMAIL_USE_SSL = ENV.email.use_ssl
# A server that never answers would hold a worker's thread until the job's timeout.
EMAIL_TIMEOUT = 20
DEFAULT_FROM_EMAIL = ENV.default_from_email

LOGGING = logging_config(ENV.log_format, ENV.log_level)
configure_structlog()

JOB_ISOLATED_MEMORY_MB = ENV.job_isolated_memory_mb
JOB_LEASE_SECONDS = ENV.job_lease_seconds
JOB_POLL_SECONDS = ENV.job_poll_seconds
JOB_RETENTION_DAYS = ENV.job_retention_days
JOB_PURGE_INTERVAL_HOURS = ENV.job_purge_interval_hours
JOB_UNKNOWN_TYPE_GRACE_SECONDS = ENV.job_unknown_type_grace_seconds
SITE_URL = ENV.site_url
WEBHOOK_PRIVATE_HOSTS = ENV.webhook_private_hosts
ALERT_INTERVAL_SECONDS = ENV.alert_interval_seconds
ALERT_QUIET_MINUTES = ENV.alert_quiet_minutes
ALERT_UNREVIEWED_HOURS = ENV.alert_unreviewed_hours
ALERT_AGE_INTERVAL_MINUTES = ENV.alert_age_interval_minutes
EMBEDDED_WORKER = ENV.embedded_worker
# The application uses Django's own users; these admin pages record changes in the audit log.
TENANTS_USER_ADMIN = True
REQUIRE_RLS = ENV.require_rls
TRUSTED_PROXIES = ENV.trusted_proxies
LISTEN_DATABASE_URL = ENV.listen_database_url
WORKER_CONCURRENCY = ENV.worker_concurrency
FIELD_ENCRYPTION_KEYS = ENV.field_encryption_keys
GMAIL_BACKEND = ENV.gmail_backend
GOOGLE_CLIENT_ID, GOOGLE_CLIENT_SECRET = ENV.google_client
GOOGLE_REDIRECT_URI = ENV.google_redirect_uri
GMAIL_API_BASE = ENV.gmail_api_base
GOOGLE_OAUTH_BASE = ENV.google_oauth_base
PUBLIC_URL = ENV.public_url
DISCORD_WEBHOOK_URL = ENV.discord_webhook_url
DISCORD_PUBLIC_KEY = ENV.discord_public_key
DISCORD_USERS = ENV.discord_users
GMAIL_PUBSUB_TOPIC = ENV.gmail_pubsub_topic
GMAIL_PUBSUB_AUDIENCE, GMAIL_PUBSUB_SERVICE_ACCOUNT = ENV.gmail_push_subscription
GMAIL_SIMULATOR_STORE = ENV.var_dir / "gmail.sqlite3"
LLM_PROVIDER = ENV.llm.provider
LLM_MODEL = ENV.llm.model
LLM_BASE_URL = ENV.llm.base_url
LLM_API_KEY = ENV.llm.api_key
LLM_PRICES = ENV.llm.prices
LLM_DAILY_BUDGET = ENV.llm.daily_budget
RULES_APPLY = ENV.rules_apply
WATCH_RENEW_INTERVAL_HOURS = ENV.watch_renew_interval_hours
LABELS_SYNC_INTERVAL_MINUTES = ENV.labels_sync_interval_minutes
REMINDERS_INTERVAL_SECONDS = ENV.reminders_interval_seconds
AGENTS_INTERVAL_SECONDS = ENV.agents_interval_seconds
ONBOARDING_DAYS = ENV.onboarding_days
ONBOARDING_MESSAGES = ENV.onboarding_messages
READ_ATTACHMENTS = ENV.read_attachments
ATTACHMENT_MAX_MB = ENV.attachment_max_mb
DOCUMENT_MEMORY_MB = ENV.document_memory_mb
DOCUMENT_SECONDS = ENV.document_seconds
CLAMD_URL = ENV.clamd_url
LABEL_BACKLOG_DAYS = ENV.label_backlog_days
SNOOZE_LABEL = ENV.snooze_label
SYNC_FULL_DAYS = ENV.sync_full_days
SYNC_FULL_INTERVAL_HOURS = ENV.sync_full_interval_hours
SYNC_FALLBACK_INTERVAL_MINUTES = ENV.sync_fallback_interval_minutes

UNFOLD = UNFOLD_SETTINGS
REST_FRAMEWORK = REST_FRAMEWORK_SETTINGS
SPECTACULAR_SETTINGS = OPENAPI_SETTINGS
