"""Operations on notification endpoints: create, change, remove, their signing keys, a test."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any
from uuid import UUID

from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError

from jobs.errors import EndpointInvalid, Fault, WrongState
from jobs.models import NotificationEndpoint
from jobs.operations.notifications.addresses import AddressRefused, parse_url
from jobs.operations.notifications.events import notify, test_notice
from jobs.operations.notifications.webhooks import new_signing_key
from jobs.operations.operation import By, audit, get_for_update, operation, owner_id
from jobs.states import Channel, NotificationEvent
from tenants.encryption import decrypt_field, encrypt_field
from tenants.errors import EncryptionError
from tenants.models import Firm
from tenants.scope import firm_scope

MAX_NAME_LENGTH = 100


@operation
def create_endpoint(
    name: str,
    channel: Channel | str,
    target: str,
    *,
    events: Collection[str] = (),
    firm: Firm | int | None = None,
    by: By = None,
) -> NotificationEndpoint:
    """Create an endpoint of a firm, or without one of the platform: that gets every firm's events.

    A webhook's signing key is made here; `signing_key` returns it.

    Raises:
        EndpointInvalid: an argument is refused; `errors` lists field, code, message.
        TenantMismatch: the firm is out of scope; without a firm, not every firm is in scope.
    """
    row = NotificationEndpoint(
        firm_id=owner_id(firm), name=name.strip(), channel=channel, target=target.strip()
    )
    row.events = sorted(set(events))
    _check(row)
    if row.channel == Channel.WEBHOOK:
        _renew_key(row)
    _save(row)
    audit("endpoint.create", row, by, after=_columns(row))
    return row


@operation
def change_endpoint(
    endpoint: NotificationEndpoint | UUID | str,
    *,
    name: str | None = None,
    target: str | None = None,
    events: Collection[str] | None = None,
    enabled: bool | None = None,
    by: By = None,
) -> NotificationEndpoint:
    """Change the given values. Waiting jobs send to a new target; disabling cancels them.

    Raises:
        EndpointInvalid: an argument is refused.
        UnknownJob: no such endpoint in scope.
    """
    row = get_for_update(NotificationEndpoint, endpoint)
    before = _columns(row)
    if name is not None:
        row.name = name.strip()
    if target is not None:
        row.target = target.strip()
    if events is not None:
        row.events = sorted(set(events))
    if enabled is not None:
        row.enabled = enabled
    _check(row)
    _save(row)
    audit("endpoint.change", row, by, before=before, after=_columns(row))
    return row


@operation
def remove_endpoint(
    endpoint: NotificationEndpoint | UUID | str, *, reason: str = "", by: By = None
) -> None:
    """Remove the endpoint; jobs that wait to send to it are canceled, its deliveries stay.

    Raises:
        UnknownJob: no such endpoint in scope.
    """
    row = get_for_update(NotificationEndpoint, endpoint)
    audit("endpoint.remove", row, by, reason, before=_columns(row))
    with firm_scope(row.firm_id):
        NotificationEndpoint.objects.filter(pk=row.pk).delete()


@operation
def rotate_signing_key(
    endpoint: NotificationEndpoint | UUID | str, *, reason: str = "", by: By = None
) -> str:
    """Make a new signing key and return it; the old one signs nothing from then on.

    Raises:
        EndpointInvalid: it is no webhook.
        UnknownJob: no such endpoint in scope.
    """
    row = get_for_update(NotificationEndpoint, endpoint)
    _require_webhook(row)
    _renew_key(row)
    _save(row)
    audit("endpoint.rotate_key", row, by, reason)
    return signing_key(row)


@operation
def show_signing_key(
    endpoint: NotificationEndpoint | UUID | str, *, reason: str = "", by: By = None
) -> str:
    """Return the signing key, and audit that it was shown.

    Raises:
        EndpointInvalid: it is no webhook, or its key cannot be decrypted.
        UnknownJob: no such endpoint in scope.
    """
    row = get_for_update(NotificationEndpoint, endpoint)
    _require_webhook(row)
    audit("endpoint.show_key", row, by, reason)
    return signing_key(row)


@operation
def send_test(
    endpoint: NotificationEndpoint | UUID | str, *, reason: str = "", by: By = None
) -> None:
    """Enqueue a test notification.

    Raises:
        WrongState: the endpoint is disabled.
        UnknownJob: no such endpoint in scope.
    """
    row = get_for_update(NotificationEndpoint, endpoint)
    if not row.enabled:
        raise WrongState("the endpoint is disabled")
    audit("endpoint.test", row, by, reason)
    notify([(row, test_notice(row))])


def signing_key(row: NotificationEndpoint) -> str:
    """Return the key that the endpoint's webhooks are signed with.

    Raises:
        EndpointInvalid: it cannot be decrypted.
    """
    try:
        return decrypt_field(row, "signing_key")
    except EncryptionError as error:
        raise _invalid("signing_key", error.code, "cannot be decrypted: rotate the key") from error


def _columns(row: NotificationEndpoint) -> dict[str, Any]:
    """Return the values that the audit log keeps; of a URL only the host."""
    return {
        "name": row.name,
        "channel": str(row.channel),
        "recipient": row.recipient,
        "events": row.events,
        "enabled": row.enabled,
    }


def _check(row: NotificationEndpoint) -> None:
    """Raise EndpointInvalid where a column is refused."""
    faults = [*_name_faults(row.name), *_event_faults(row.events)]
    if row.channel not in list(Channel):
        faults.append(Fault("channel", "unknown", f"must be one of {', '.join(Channel)}"))
    elif row.channel == Channel.EMAIL:
        try:
            validate_email(row.target)
        except ValidationError:
            faults.append(Fault("target", "no_address", "must be an e-mail address"))
    else:
        try:
            parse_url(row.target)
        except AddressRefused as error:
            faults.append(Fault("target", "no_url", str(error)))
    if faults:
        raise EndpointInvalid(faults)


def _name_faults(name: str) -> list[Fault]:
    if 1 <= len(name) <= MAX_NAME_LENGTH and name.isprintable():
        return []
    message = f"must be one line of 1 to {MAX_NAME_LENGTH} characters"
    return [Fault("name", "wrong_length", message)]


def _event_faults(events: Sequence[str]) -> list[Fault]:
    unknown = [event for event in events if event not in list(NotificationEvent)]
    message = f"each must be one of {', '.join(NotificationEvent)}"
    return [Fault("events", "unknown", message)] if unknown else []


def _require_webhook(row: NotificationEndpoint) -> None:
    if row.channel != Channel.WEBHOOK:
        raise _invalid("channel", "no_webhook", "only webhooks have a signing key")


def _renew_key(row: NotificationEndpoint) -> None:
    try:
        encrypt_field(row, "signing_key", new_signing_key())
    except EncryptionError as error:
        message = "needs FIELD_ENCRYPTION_KEYS: its signing key is stored encrypted"
        raise _invalid("channel", error.code, message) from error


def _save(row: NotificationEndpoint) -> None:
    try:
        with firm_scope(row.firm_id):
            row.save()
    except IntegrityError as error:
        raise _invalid("name", "taken", "another endpoint has this name") from error


def _invalid(field: str, code: str, message: str) -> EndpointInvalid:
    return EndpointInvalid([Fault(field, code, message)])
