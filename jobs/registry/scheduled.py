"""A timetable declared with a job type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jobs.registry.timetable import Timetable, TimetableInvalid


@dataclass(frozen=True, kw_only=True)
class Scheduled:
    """When jobs of a type are enqueued by themselves: `@job(…, schedule=Scheduled(cron="0 8 * * *"))`.

    Give either `cron`, by the clock of `time_zone`, or `every_seconds`. The jobs belong to the system
    firm; with `every_firm`, each run is one job for each active firm. Slots that were missed while no
    worker was there run once. Workers store it when they start; an operator's changes stay.

    Raises:
        TypeError: `cron` or `every_seconds` is of the wrong type.
        ValueError: both or neither are given, or one, or the zone, cannot be read.
    """

    cron: str | None = None
    every_seconds: int | None = None
    time_zone: str = "UTC"
    every_firm: bool = False
    payload: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if (self.cron is None) == (self.every_seconds is None):
            raise ValueError("give either cron or every_seconds")
        if self.every_seconds is not None and type(self.every_seconds) is not int:
            raise TypeError("every_seconds must be a whole number")
        if not isinstance(self.cron, str | None):
            raise TypeError("cron must be a string")
        try:
            Timetable(self.cron, self.every_seconds, self.time_zone)
        except TimetableInvalid as error:
            name = "every_seconds" if error.field == "interval_seconds" else error.field
            raise ValueError(f"{name}: {error}") from None
