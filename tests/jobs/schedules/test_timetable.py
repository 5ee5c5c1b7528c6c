"""When slots are: intervals, cron expressions, and the two days on which clocks are changed."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise, takewhile
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobs.registry.timetable import Timetable, TimetableInvalid
from tests.jobs.schedules.kit import DAY, HOUR, MINUTE, START, at

pytestmark = pytest.mark.req("S-01")

VIENNA = "Europe/Vienna"
ZONES = (
    "UTC",
    VIENNA,
    "America/New_York",
    "Australia/Lord_Howe",  # summer time is half an hour
    "Africa/Cairo",  # the clock jumps at midnight
    "Pacific/Apia",  # a day was left out
    "Asia/Pyongyang",  # the zone changed by half an hour twice, without summer time
)
CRONS = (
    "30 2 * * *",
    "0,30 0-3 * * *",
    "*/15 * * * *",
    "*/20 2 * * *",
    "15 */2 * * *",
    "0 0 * * *",
    "30 0 1 * *",
    "5 0 * * MON-FRI",
    "59 23 L * *",
)


def cron(expression: str, zone: str = "UTC") -> Timetable:
    return Timetable(expression, None, zone)


def between(timetable: Timetable, start: datetime, end: datetime) -> list[datetime]:
    """Return the slots after `start` and not after `end`."""
    found = []
    while (start := timetable.first_after(start)) <= end:
        found.append(start)
    return found


def test_a_time_of_day_that_the_clock_skips_runs_once_after_the_gap() -> None:
    # On 29 March 2026 in Vienna, 02:00 is followed by 03:00 (01:00 UTC).
    found = between(cron("30 2 * * *", VIENNA), at("2026-03-27 12:00"), at("2026-03-31 12:00"))
    assert found == [
        at("2026-03-28 01:30"),
        at("2026-03-29 01:00"),
        at("2026-03-30 00:30"),
        at("2026-03-31 00:30"),
    ]


def test_a_time_of_day_that_comes_twice_runs_the_first_time_alone() -> None:
    # On 25 October 2026 in Vienna, 03:00 (01:00 UTC) is followed by 02:00.
    nightly = cron("30 2 * * *", VIENNA)
    found = between(nightly, at("2026-10-24 12:00"), at("2026-10-26 12:00"))
    assert found == [at("2026-10-25 00:30"), at("2026-10-26 01:30")]
    second_pass = at("2026-10-25 01:10")
    assert nightly.first_after(second_pass) == at("2026-10-26 01:30")


def test_several_times_inside_the_gap_become_one() -> None:
    found = between(cron("0,30 2,3 * * *", VIENNA), at("2026-03-29 00:00"), at("2026-03-29 12:00"))
    assert found == [at("2026-03-29 01:00"), at("2026-03-29 01:30")]


@pytest.mark.parametrize(
    ("day", "hours"), [("2026-03-29", 23), ("2026-10-25", 25), ("2026-06-01", 24)]
)
def test_what_starts_with_a_star_follows_real_time(day: str, hours: int) -> None:
    start = datetime.fromisoformat(day).astimezone(UTC)
    hourly = cron("0 * * * *", VIENNA)
    local_midnight = next(
        slot
        for slot in between(hourly, start - DAY, start + DAY)
        if slot.astimezone(hourly.zone).isoformat().startswith(f"{day}T00:00")
    )
    found = between(hourly, local_midnight, local_midnight + hours * HOUR)
    assert len(found) == hours
    assert {later - earlier for earlier, later in pairwise(found)} == {HOUR}


@given(
    expression=st.sampled_from(CRONS),
    zone=st.sampled_from(ZONES),
    start=st.integers(0, 20 * 366 * 24 * 60).map(
        lambda minutes: at("2010-01-01") + minutes * MINUTE
    ),
    part=st.floats(0, 1),
)
@settings(max_examples=40)
def test_the_slots_are_the_same_wherever_one_starts_to_look(
    expression: str, zone: str, start: datetime, part: float
) -> None:
    timetable = cron(expression, zone)
    end = start + 3 * DAY
    middle = start + part * (end - start)
    found = between(timetable, start, end)
    assert found == sorted(set(found))
    assert between(timetable, middle, end) == [slot for slot in found if slot > middle]
    if found and found[0] <= middle:
        assert timetable.latest(found[0], middle) == max(
            takewhile(lambda slot: slot <= middle, found)
        )


@st.composite
def fields(draw: st.DrawFn, low: int, high: int) -> tuple[str, set[int]]:
    """Return a field of a cron expression, and the numbers that it means."""
    numbers = range(low, high + 1)
    step = draw(st.integers(1, 20))
    first, last = sorted(
        draw(st.lists(st.sampled_from(numbers), min_size=2, max_size=2, unique=True))
    )
    chosen = draw(st.sets(st.sampled_from(numbers), min_size=1, max_size=4))
    return draw(
        st.sampled_from(
            [
                ("*", set(numbers)),
                (f"*/{step}", set(numbers[::step])),
                (f"{first}-{last}/{step}", set(range(first, last + 1, step))),
                (",".join(map(str, sorted(chosen))), chosen),
            ]
        )
    )


@cache
def changes(zone: str) -> list[datetime]:
    """Return the times at which the zone's clock had changed in the last quarter of a day."""
    clock = ZoneInfo(zone)
    times = [at("2009-01-01") + number * 6 * HOUR for number in range(12 * 366 * 4)]
    offsets = [time.astimezone(clock).utcoffset() for time in times]
    return [
        time for time, (old, new) in zip(times[1:], pairwise(offsets), strict=True) if old != new
    ]


def slots_by_the_minute(
    minutes: set[int],
    hours: set[int],
    *,
    real_time: bool,
    zone: str,
    start: datetime,
    end: datetime,
) -> list[datetime]:
    """Return the slots after `start` and not after `end`, found by watching the clock."""
    clock = ZoneInfo(zone)
    found, seen = [], set[datetime]()
    moment = start - DAY
    shown = moment.astimezone(clock).replace(tzinfo=None, fold=0)
    while moment < end:
        moment += MINUTE
        before, shown = shown, moment.astimezone(clock).replace(tzinfo=None, fold=0)
        # A clock that is put forward skips times, and these are due, too.
        due = [shown]
        if not real_time:
            while before + MINUTE < shown:
                before += MINUTE
                due.append(before)
            due = [time for time in due if time not in seen]
            seen.update(due)
        if any(time.minute in minutes and time.hour in hours for time in due):
            found.append(moment)
    return [slot for slot in found if slot > start]


@given(
    minute=fields(0, 59),
    hour=fields(0, 23),
    zone=st.sampled_from(ZONES[1:]),
    change=st.integers(0, 10**6),
    early=st.integers(0, 30 * 60),
)
@settings(max_examples=25)
@example(("30", {30}), ("*", set(range(24))), "Australia/Lord_Howe", 0, 12 * 60)
@example(("45", {45}), ("*/1", set(range(24))), "Australia/Lord_Howe", 1, 12 * 60)
@example(("0", {0}), ("*/2", set(range(0, 24, 2))), "Australia/Lord_Howe", 0, 12 * 60)
def test_the_slots_around_a_change_of_the_clock_are_those_that_it_shows(
    minute: tuple[str, set[int]], hour: tuple[str, set[int]], zone: str, change: int, early: int
) -> None:
    moments = changes(zone)
    start = moments[change % len(moments)] - early * MINUTE
    end = start + DAY
    expression = f"{minute[0]} {hour[0]} * * *"
    expected = slots_by_the_minute(
        minute[1],
        hour[1],
        real_time=expression.startswith("*") or hour[0].startswith("*"),
        zone=zone,
        start=start,
        end=end,
    )
    assert between(cron(expression, zone), start, end) == expected


@given(st.integers(1, 10**6), st.integers(0, 10**8), st.integers(0, 10**6))
def test_an_interval_counts_from_slot_to_slot(interval: int, late: int, fraction: int) -> None:
    timetable = Timetable(None, interval)
    now = START + timedelta(seconds=late, microseconds=fraction)
    latest = timetable.latest(START, now)
    following = timetable.first_after(now, anchor=latest)
    assert latest <= now < following
    assert following - latest == timedelta(seconds=interval)
    assert (latest - START) % timedelta(seconds=interval) == timedelta(0)


def test_the_latest_slot_is_found_however_long_ago_the_first_was() -> None:
    every_minute = cron("* * * * *")
    assert every_minute.latest(START - 3000 * DAY, START + 0.5 * HOUR) == START + 0.5 * HOUR
    leap_day = cron("0 0 29 2 *")
    assert leap_day.latest(at("2016-02-29 00:00"), at("2023-05-01 00:00")) == at("2020-02-29 00:00")


def test_the_next_slots_and_plain_words() -> None:
    weekly = cron("0 3 * * MON", VIENNA)
    assert weekly.upcoming(weekly.first_after(START), 3) == [
        at("2026-01-19 02:00"),
        at("2026-01-26 02:00"),
        at("2026-02-02 02:00"),
    ]
    assert weekly.in_words() == "At 03:00 on Monday, Europe/Vienna"
    words = [Timetable(None, seconds).in_words() for seconds in (1, 90, 60, 900, 3600, 172_800)]
    assert words == [
        "Every second",
        "Every 90 seconds",
        "Every minute",
        "Every 15 minutes",
        "Every hour",
        "Every 2 days",
    ]


@pytest.mark.parametrize(
    ("cron_text", "interval", "zone", "field"),
    [
        ("61 * * * *", None, "UTC", "cron"),
        ("* * * *", None, "UTC", "cron"),
        ("0 * * * * *", None, "UTC", "cron"),
        ("0 0 30 2 *", None, "UTC", "cron"),
        ("@daily", None, "UTC", "cron"),
        ("", None, "UTC", "cron"),
        (None, None, "UTC", "cron"),
        ("* * * * *", 60, "UTC", "cron"),
        (None, 0, "UTC", "interval_seconds"),
        (None, 10**12, "UTC", "interval_seconds"),
        ("* * * * *", None, "Europe/Atlantis", "time_zone"),
        ("* * * * *", None, "../etc/passwd", "time_zone"),
    ],
)
def test_what_cannot_be_a_timetable_is_refused_by_field(
    cron_text: str | None, interval: int | None, zone: str, field: str
) -> None:
    with pytest.raises(TimetableInvalid) as refused:
        Timetable(cron_text, interval, zone)
    assert refused.value.field == field
