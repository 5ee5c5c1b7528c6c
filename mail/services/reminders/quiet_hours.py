"""When a person does not want to be disturbed."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo


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
