"""A job type, a group and a host without a time zone for the tests of schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from zoneinfo import available_timezones

import pytest

from jobs.registry import JobPayload, JobType, job, timetable
from jobs.schedules import groups as schedule_groups
from jobs.schedules.groups import GroupRequest, Member


class PostPayload(JobPayload):
    """A letter box, and the text to put into it."""

    box: str
    text: str = ""


@pytest.fixture
def mail_type(job_types: dict[str, JobType]) -> None:
    """Declare a type whose payload needs a field from the members of the group."""

    @job("test.post", category="notifications", payload=PostPayload)
    def post(payload: PostPayload, ctx: Any) -> None:
        pass


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[Member]], list[GroupRequest]]:
    """Return a function that registers the group "box" and returns the requests it will get."""
    monkeypatch.setattr(schedule_groups, "_groups", dict(schedule_groups._groups))

    def register(members: list[Member]) -> list[GroupRequest]:
        asked: list[GroupRequest] = []

        @schedule_groups.schedule_group("box", fields=("box",))
        def boxes(reach: GroupRequest) -> Iterator[Member]:
            asked.append(reach)
            yield from members

        return asked

    return register


@pytest.fixture
def poor_host(monkeypatch: pytest.MonkeyPatch) -> Callable[[], AbstractContextManager[None]]:
    """Return a context in which this host does not have the zone Europe/Vienna."""

    @contextmanager
    def poor() -> Iterator[None]:
        with monkeypatch.context() as patch:
            patch.setattr(timetable, "_zones", lambda: available_timezones() - {"Europe/Vienna"})
            yield

    return poor
