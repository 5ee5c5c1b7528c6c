"""The mail app's settings: read from Django's settings at use, with the defaults in one place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from django.conf import settings

from mail.documents.extract import Limits
from mail.gmail.certificates import GOOGLE_CERTIFICATES
from mail.gmail.oauth import OAuthClient
from mail.gmail.push import Subscription

# The paths below GOOGLE_OAUTH_BASE, as the Gmail simulator serves them.
_AUTH_PATH, _TOKEN_PATH, _REVOKE_PATH = "/o/oauth2/v2/auth", "/token", "/revoke"
_CERTIFICATES_PATH = "/oauth2/v1/certs"


def uses_google() -> bool:
    """Say whether mailboxes are reached over HTTP with their owners' permission."""
    return bool(settings.GMAIL_BACKEND == "google")


def gmail_api_base() -> str:
    """Return where Gmail's API is served; empty for Google itself."""
    return str(settings.GMAIL_API_BASE)


def oauth_client() -> OAuthClient:
    """Return this service's OAuth client at Google.

    The consent, token and revocation addresses are Google's, or below GOOGLE_OAUTH_BASE, or below
    GMAIL_API_BASE if only that is set.
    """
    client = OAuthClient(settings.GOOGLE_CLIENT_ID, settings.GOOGLE_CLIENT_SECRET)
    base = settings.GOOGLE_OAUTH_BASE or settings.GMAIL_API_BASE
    if not base:
        return client
    return replace(
        client,
        auth_uri=f"{base}{_AUTH_PATH}",
        token_uri=f"{base}{_TOKEN_PATH}",
        revoke_uri=f"{base}{_REVOKE_PATH}",
    )


def pubsub_topic() -> str:
    """Return the Pub/Sub topic that Gmail publishes to; empty: mailboxes are not watched."""
    return str(settings.GMAIL_PUBSUB_TOPIC)


def push_subscription() -> Subscription:
    """Return what the tokens of pushes must name; while it is empty, all pushes are refused."""
    return Subscription(settings.GMAIL_PUBSUB_AUDIENCE, settings.GMAIL_PUBSUB_SERVICE_ACCOUNT)


def certificates_address() -> str:
    """Return the address of Google's certificates: at Google, or below the same base as above."""
    base = settings.GOOGLE_OAUTH_BASE or settings.GMAIL_API_BASE
    return f"{base}{_CERTIFICATES_PATH}" if base else GOOGLE_CERTIFICATES


def gmail_simulator_store() -> Path:
    """The file the local Gmail keeps its mailboxes in; every process uses the same one."""
    return Path(settings.GMAIL_SIMULATOR_STORE)


def sync_full_days() -> int:
    """How many days back a full scan looks at least."""
    return int(getattr(settings, "SYNC_FULL_DAYS", 10))


def sync_fallback_interval_seconds() -> int:
    """How many seconds lie between two scheduled syncs of a mailbox."""
    return int(getattr(settings, "SYNC_FALLBACK_INTERVAL_MINUTES", 15)) * 60


def sync_full_interval_seconds() -> int:
    """How many seconds lie between two scheduled full scans of a mailbox."""
    return int(getattr(settings, "SYNC_FULL_INTERVAL_HOURS", 1)) * 3600


def watch_renew_interval_seconds() -> int:
    """How many seconds lie between two renewals of a mailbox's watch."""
    return int(settings.WATCH_RENEW_INTERVAL_HOURS) * 3600


def labels_sync_interval_seconds() -> int:
    """How many seconds lie between two scheduled reads of a mailbox's labels."""
    return int(settings.LABELS_SYNC_INTERVAL_MINUTES) * 60


def reminders_interval_seconds() -> int:
    """How many seconds lie between two searches for due reminders, and for due digests."""
    return int(settings.REMINDERS_INTERVAL_SECONDS)


def agents_interval_seconds() -> int:
    """How many seconds lie between two searches for due agents."""
    return int(settings.AGENTS_INTERVAL_SECONDS)


def onboarding_days() -> int:
    """How many days of mail the onboarding of a mailbox reads."""
    return int(settings.ONBOARDING_DAYS)


def onboarding_messages() -> int:
    """How many messages the onboarding of a mailbox reads at most."""
    return int(settings.ONBOARDING_MESSAGES)


def reads_attachments() -> bool:
    """Whether attachments of new mail are fetched and read."""
    return bool(settings.READ_ATTACHMENTS)


def attachment_max_bytes() -> int:
    """How large an attachment may be to be fetched."""
    return int(settings.ATTACHMENT_MAX_MB) * 2**20


def document_limits() -> Limits:
    """What reading one attachment may cost."""
    return Limits(settings.DOCUMENT_MEMORY_MB, settings.DOCUMENT_SECONDS)


def clamd_url() -> str:
    """Where clamd is; empty: attachments are not scanned."""
    return str(settings.CLAMD_URL)


def label_backlog_days() -> int:
    """For how many days before a mailbox was made active its mail is labelled."""
    return int(getattr(settings, "LABEL_BACKLOG_DAYS", 14))


@dataclass(frozen=True)
class LLMSettings:
    """Which language model is asked; `prices` are dollars a million tokens, in and out."""

    provider: str
    model: str
    base_url: str
    api_key: str
    prices: tuple[float, float]
    daily_budget: float


def llm() -> LLMSettings:
    """Return which language model is asked, and what a firm may spend on it a day."""
    return LLMSettings(
        provider=settings.LLM_PROVIDER,
        model=settings.LLM_MODEL,
        base_url=settings.LLM_BASE_URL,
        api_key=settings.LLM_API_KEY,
        prices=settings.LLM_PRICES,
        daily_budget=settings.LLM_DAILY_BUDGET,
    )


def all_rules_apply() -> bool:
    """Whether every rule that holds for a message applies, instead of the first alone."""
    return str(getattr(settings, "RULES_APPLY", "first")) == "all"


def public_url() -> str:
    """This service's public URL, without a trailing slash; empty if it is not set."""
    return str(settings.PUBLIC_URL)


def discord_webhook() -> str:
    """The Discord webhook that questions are posted to; empty for none."""
    return str(settings.DISCORD_WEBHOOK_URL)


def discord_public_key() -> str:
    """The key that verifies presses of Discord's buttons; while it is empty, all are refused."""
    return str(settings.DISCORD_PUBLIC_KEY)


def discord_users() -> dict[str, str]:
    """The user names of the people who may press buttons, by their Discord ids."""
    return dict(settings.DISCORD_USERS)


def send_check_seconds() -> float:
    """How many seconds Gmail may not show a sent message before a person is asked."""
    return float(getattr(settings, "SEND_CHECK_SECONDS", 120))


def snooze_label() -> str:
    """Return the name of the label that snoozed messages carry."""
    return str(getattr(settings, "SNOOZE_LABEL", "Mailroom/Snoozed"))


def oauth_redirect_uri() -> str:
    """Return the address that Google redirects people to; empty for that of the request."""
    return str(settings.GOOGLE_REDIRECT_URI)


def demo_worker_log() -> Path:
    """Where the demo keeps what its worker logs."""
    return Path(settings.VAR_DIR) / "demo-worker.log"
