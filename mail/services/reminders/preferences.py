"""How people want to be notified, and what they change about it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from django.db import IntegrityError, transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from jobs import errors
from jobs.engine.clock import database_now
from jobs.models import JobQueue
from jobs.operations.notifications.addresses import AddressRefused, parse_url
from jobs.queue import edit
from jobs.states import Channel, Status
from mail.errors import PreferenceInvalid, RowGone, WrongState
from mail.models import NotificationPreference
from mail.services.operation import audit
from mail.services.rules.scopes import fault
from tenants.audit import SERVICE, Actor
from tenants.encryption import decrypt_field, encrypt_field
from tenants.errors import EncryptionError
from tenants.models import Membership
from tenants.scope import firm_scope

THERE_ALREADY = "You have preferences in this firm: change those."
SETTINGS = ("time_zone", "quiet_from", "quiet_until", "email", "digest_at")
# The settings that decide until when a delivery waits.
_QUIET = ("time_zone", "quiet_from", "quiet_until")
# The settings from which the dates of digests follow.
_DATES = ("time_zone", "digest_at")
# The job types of deliveries: reminders and digests.
TYPES = ("reminder_delivery", "digest_delivery")
REASON = "The quiet hours were changed"


@dataclass(frozen=True)
class Addressee:
    """Where a person can be reached, by channel, and when they have quiet hours."""

    targets: dict[Channel, str]
    time_zone: str = "UTC"
    quiet_from: time | None = None
    quiet_until: time | None = None

    def silent_until(self, now: datetime) -> datetime | None:
        """Return when the person may be disturbed again; None if they may now."""
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
    """Return the person's preference; an unsaved one with the defaults if they have none."""
    found: NotificationPreference | None = NotificationPreference.objects.filter(
        firm_id=firm_id, user_id=user_id
    ).first()
    return found or NotificationPreference(firm_id=firm_id, user_id=user_id)


def visible(rows: QuerySet[Any], user_id: Any, admin_of: list[int] | None) -> QuerySet[Any]:
    """Return the person's own rows and those of the firms they are admin of; None: all firms."""
    if admin_of is None:
        return rows
    found: QuerySet[Any] = rows.filter(Q(user_id=user_id) | Q(firm_id__in=admin_of))
    return found


def create_preference(
    firm_id: int, user_id: int, *, by: Actor = SERVICE, **settings: Any
) -> NotificationPreference:
    """Store the first preference of a member; see `change_preference`.

    Raises:
        PreferenceInvalid: a setting cannot be used, or the person is no member of the firm.
        WrongState: the person has a preference there already.
    """
    with firm_scope(firm_id):
        if not Membership.objects.filter(user_id=user_id).exists():
            raise PreferenceInvalid([fault("firm", "the person is no member of it")])
        if _locked(firm_id, user_id) is not None:
            raise WrongState(THERE_ALREADY)
        try:
            with transaction.atomic():
                return change_preference(firm_id, user_id, by=by, **settings)
        except IntegrityError as error:
            # Only the second of two calls at the same time comes here.
            raise WrongState(THERE_ALREADY) from error


def change_preference(
    firm_id: int,
    user_id: int,
    *,
    by: Actor = SERVICE,
    reason: str = "",
    discord_webhook: str | None = None,
    **settings: Any,
) -> NotificationPreference:
    """Change settings; `discord_webhook` None keeps it, empty removes it.

    Raises:
        PreferenceInvalid: a setting cannot be used.
    """
    with firm_scope(firm_id):
        row = _locked(firm_id, user_id) or NotificationPreference(firm_id=firm_id, user_id=user_id)
        before = _words(row)
        dates = [getattr(row, name) for name in _DATES]
        quiet = [getattr(row, name) for name in _QUIET]
        for name, value in settings.items():
            setattr(row, name, value)
        _check(row, discord_webhook)
        if discord_webhook is not None:
            _set_webhook(row, discord_webhook)
        if dates != [getattr(row, name) for name in _DATES]:
            timetable = row.timetable
            row.due_at = None if timetable is None else timetable.first_after(database_now())
        row.changed_at = timezone.now()
        row.save()
        audit("notification_preference.change", row, by, reason, before=before, after=_words(row))
        if quiet != [getattr(row, name) for name in _QUIET]:
            recheck_waiting(user_id, by)
    return row


def reset_preference(row: NotificationPreference, *, by: Actor = SERVICE, reason: str = "") -> None:
    """Delete the preference: the person is then notified by e-mail, at any time.

    Raises:
        RowGone: it is deleted already.
    """
    with firm_scope(row.firm_id):
        locked = _locked(row.firm_id, row.user_id)
        if locked is None:
            raise RowGone("The preference is deleted.")
        audit("notification_preference.reset", locked, by, reason, before=_words(locked))
        locked.delete()
        recheck_waiting(row.user_id, by)


def _locked(firm_id: int, user_id: int) -> NotificationPreference | None:
    rows = NotificationPreference.objects.select_for_update(of=("self",), no_key=True)
    found: NotificationPreference | None = rows.filter(firm_id=firm_id, user_id=user_id).first()
    return found


def _check(row: NotificationPreference, discord_webhook: str | None) -> None:
    faults = []
    if row.time_zone not in available_timezones():
        faults.append(fault("time_zone", "must be the name of a zone, such as Europe/Vienna"))
    if (row.quiet_from is None) != (row.quiet_until is None):
        faults.append(fault("quiet_until", "needs quiet_from too: give both times, or neither"))
    elif row.quiet_from is not None and row.quiet_from == row.quiet_until:
        # Not allowed, because it could mean the whole day or no time at all.
        faults.append(
            fault("quiet_until", "is the same as quiet_from: the quiet hours would have no end")
        )
    if row.digest_at is not None and (row.digest_at.second or row.digest_at.microsecond):
        faults.append(fault("digest_at", "must be a whole minute"))
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


def _words(row: NotificationPreference) -> dict[str, Any]:
    """Return the settings as the audit log keeps them, without the webhook's URL."""
    settings = {name: getattr(row, name) for name in SETTINGS}
    words = {name: str(one) if isinstance(one, time) else one for name, one in settings.items()}
    return {**words, "discord": bool(row.discord_webhook)}


def quiet_until(
    now: datetime, time_zone: str, begin: time | None, end: time | None
) -> datetime | None:
    """Return when the quiet hours end that contain `now`, None if none do.

    They follow the person's clock. If the clock skips the end, they end when it jumps; if the end
    comes twice, they end at the first time. Equal times mean no quiet hours.
    """
    if begin is None or end is None or begin == end:
        return None
    zone = ZoneInfo(time_zone)
    local = now.astimezone(zone)
    shown = local.time()
    over_midnight = begin > end
    is_quiet = (shown >= begin or shown < end) if over_midnight else begin <= shown < end
    if not is_quiet:
        return None
    day = local.date() + timedelta(days=over_midnight and shown >= begin)
    wanted = datetime.combine(day, end, zone)
    until = wanted.astimezone(UTC)
    if until.astimezone(zone).replace(tzinfo=None) != wanted.replace(tzinfo=None):
        return _jump(wanted)
    if until <= now:
        # The clock shows this hour a second time, which is quiet, too.
        until = wanted.replace(fold=1).astimezone(UTC)
    return until


def _jump(skipped: datetime) -> datetime:
    """Return, to the second, when the clock jumps over a time that it never shows."""
    before = skipped.utcoffset()
    early, late = (int(skipped.replace(fold=fold).timestamp()) for fold in (1, 0))
    while late - early > 1:
        middle = (early + late) // 2
        if datetime.fromtimestamp(middle, skipped.tzinfo).utcoffset() == before:
            early = middle
        else:
            late = middle
    return datetime.fromtimestamp(late, UTC)


def recheck_waiting(user_id: Any, by: Actor) -> None:
    """Run the person's waiting deliveries now, so that they check the quiet hours again.

    Otherwise they would wait for the end of the former quiet hours. Must run in the firm's scope.
    """
    waiting = JobQueue.objects.filter(
        user_id=user_id,
        job_type__in=TYPES,
        status=Status.PENDING,
        scheduled_at__gt=database_now(),
    )
    # Of several dates of a reminder, which share its lock, the first that comes counts for all.
    jobs = {lock or pk: pk for pk, lock in waiting.order_by("-pk").values_list("pk", "lock_key")}
    for job_id in sorted(jobs.values()):
        # A worker may have claimed the job meanwhile; then the job checks them by itself.
        with suppress(errors.WrongState, errors.UnknownJob):
            edit(job_id, run_now=True, by=by, reason=REASON)
