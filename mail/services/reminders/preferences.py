"""How people want to be notified, and what they change about it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, time
from typing import Any
from zoneinfo import available_timezones

from django.utils import timezone

from jobs.operations.notifications.addresses import AddressRefused, parse_url
from jobs.states import Channel
from mail.errors import PreferenceInvalid
from mail.models import NotificationPreference
from mail.services.reminders.quiet_hours import quiet_until
from mail.services.rules.scopes import fault
from tenants.audit import SERVICE, Actor, record_operation
from tenants.encryption import decrypt_field, encrypt_field
from tenants.errors import EncryptionError
from tenants.scope import firm_scope

SETTINGS = ("time_zone", "quiet_from", "quiet_until", "email")


@dataclass(frozen=True)
class Addressee:
    """Where a person can be reached, by channel, and when not."""

    targets: dict[Channel, str]
    time_zone: str = "UTC"
    quiet_from: time | None = None
    quiet_until: time | None = None

    def silent_until(self, now: datetime) -> datetime | None:
        """Return when the person may be disturbed again; None: now."""
        return quiet_until(now, self.time_zone, self.quiet_from, self.quiet_until)


def addressee(firm_id: int, user: Any) -> Addressee:
    """Return how to reach the person. Must run in the firm's scope."""
    row = find_preference(firm_id, user.pk)
    targets = {}
    if row.email and user.email:
        targets[Channel.EMAIL] = str(user.email)
    if row.discord_webhook:
        targets[Channel.DISCORD] = decrypt_field(row, "discord_webhook")
    return Addressee(targets, row.time_zone, row.quiet_from, row.quiet_until)


def find_preference(firm_id: int, user_id: int) -> NotificationPreference:
    """Return the person's preference, an unsaved one where they never changed it."""
    found: NotificationPreference | None = NotificationPreference.objects.filter(
        firm_id=firm_id, user_id=user_id
    ).first()
    return found or NotificationPreference(firm_id=firm_id, user_id=user_id)


def change_preference(
    firm_id: int,
    user_id: int,
    *,
    by: Actor = SERVICE,
    discord_webhook: str | None = None,
    **settings: Any,
) -> NotificationPreference:
    """Change settings; `discord_webhook` None keeps it, empty removes it.

    Raises:
        PreferenceInvalid: a setting cannot be used.
    """
    with firm_scope(firm_id):
        row = find_preference(firm_id, user_id)
        before = {name: getattr(row, name) for name in SETTINGS}
        for name, value in settings.items():
            setattr(row, name, value)
        _check(row, discord_webhook)
        if discord_webhook is not None:
            _set_webhook(row, discord_webhook)
        row.changed_at = timezone.now()
        row.save()
        after = {name: getattr(row, name) for name in SETTINGS}
        record_operation(
            by,
            "notification_preference.change",
            firm_id=firm_id,
            target=("notification_preference", row.pk),
            before=_words(before),
            after=_words({**after, "discord": bool(row.discord_webhook)}),
        )
    return row


def _check(row: NotificationPreference, discord_webhook: str | None) -> None:
    faults = []
    if row.time_zone not in available_timezones():
        faults.append(fault("time_zone", "must be the name of a zone, such as Europe/Vienna"))
    if (row.quiet_from is None) != (row.quiet_until is None):
        faults.append(fault("quiet_until", "goes with quiet_from"))
    if discord_webhook:
        try:
            parse_url(discord_webhook)
        except AddressRefused as error:
            faults.append(fault("discord_webhook", str(error)))
    if faults:
        raise PreferenceInvalid(faults)


def _set_webhook(row: NotificationPreference, url: str) -> None:
    try:
        encrypt_field(row, "discord_webhook", url)
    except EncryptionError as error:
        text = "needs FIELD_ENCRYPTION_KEYS, to be kept"
        raise PreferenceInvalid([fault("discord_webhook", text)]) from error


def _words(settings: dict[str, Any]) -> dict[str, Any]:
    return {name: str(one) if isinstance(one, time) else one for name, one in settings.items()}
