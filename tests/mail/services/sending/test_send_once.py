"""A message is sent once or needs a look, whatever answers are lost and workers killed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from jobs.errors import Retryable, Snooze
from mail.gmail.simulator.faults import LOST_ANSWER
from mail.job_handlers.outbound import OutboundPayload, send
from mail.models import OutboundMessage
from mail.services.mailboxes import unanswered
from tests.mail.action_kit import received
from tests.mail.interrupted import Killed, Steps, watched
from tests.mail.mail_kit import Mailbox
from tests.mail.send_kit import at_once, check_sent_once, current, forward

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-18")]

# How many messages `make chaos` sends, and in its other variants; the suite kills at each step
# once.
CHAOS, CHAOS_BESIDE = 2000, 200
MOST_KILLS = 3
MOST_ATTEMPTS = 20
HOUR = 3600
# The share of messages that may need a look although they were sent once.
PARKED = 0.001


@dataclass(frozen=True)
class Weather:
    """What Gmail is like: how long its search lags, and whether it forgets its history at once."""

    lag: int = 0
    forgets: bool = False


PROMPT, LAGGING = Weather(), Weather(lag=HOUR)
# In this weather, a sent message cannot be told from one that is gone.
BLIND = Weather(lag=HOUR, forgets=True)


@pytest.fixture
def box(mailbox: Mailbox, settings: Any) -> Mailbox:
    """Return a mailbox in which a message needs a look as soon as nobody can tell."""
    settings.SEND_CHECK_SECONDS = 0
    return at_once(mailbox)


@dataclass
class Sending:
    """One message, and the attempts at it that workers make."""

    box: Mailbox
    outbound: OutboundMessage
    weather: Weather

    @classmethod
    def of(cls, box: Mailbox, arrived: str, weather: Weather) -> Sending:
        """Ask for a message; Gmail's answer to its sending will be lost."""
        box.simulator.order_fault(LOST_ANSWER, method="drafts.send")
        return cls(box, forward(box, arrived, "bob@partner.example"), weather)

    def attempt(self, steps: Steps) -> bool:
        """Make one attempt; say whether another is due."""
        outbound = self.outbound
        payload = OutboundPayload(
            tenant_id=outbound.firm_id,
            account_id=outbound.account_id,
            outbound_id=outbound.pk,
            release=outbound.releases,
        )
        context: Any = SimpleNamespace(job_id=outbound.job_id, is_last_attempt=False)
        try:
            with watched(steps):
                send(payload, context)
        except (Killed, Retryable, Snooze):
            if self.weather.forgets:
                self.box.simulator.expire_history(self.box.account.address)
            return True
        return False

    def finish(self, kills: Sequence[int] = ()) -> int:
        """Make attempts until the message is over; the first ones die before these steps.

        Return the number of steps of the longest attempt.
        """
        deaths, most = iter(kills), 0
        for _ in range(MOST_ATTEMPTS):
            steps = Steps(at=next(deaths, None))
            again = self.attempt(steps)
            most = max(most, steps.count)
            if not again:
                return most
        raise AssertionError(f"it goes round and round: {current(self.outbound).status}")

    def finish_overtaken(self, at: int) -> int:
        """Let another worker finish the message while the first stands still before this request.

        Return how many steps the first worker's attempt has at requests.
        """

        def finish_elsewhere() -> None:
            # The other process has its own record of mailboxes that do not answer.
            with (
                patch.object(unanswered, "_silent", set()),
                patch.object(unanswered, "_at_work", defaultdict(list)),
            ):
                self.finish()

        steps = Steps(at=at, act=finish_elsewhere, only_requests=True)
        if self.attempt(steps):
            self.finish()
        return steps.count


def kills_of(steps: int, messages: int = 0) -> Iterator[list[int]]:
    """Yield the steps before which a message's workers die: each step alone, then random ones."""
    yield from ([step] for step in range(steps))
    random = Random(0)
    for _ in range(messages - steps - 1):
        yield [random.randrange(steps) for _ in range(random.randint(0, MOST_KILLS))]


@pytest.mark.parametrize("weather", [PROMPT, LAGGING], ids=["prompt", "lagging"])
def test_a_kill_at_any_step_and_a_lost_answer_send_once(
    box: Mailbox, weather: Weather, chaos: bool, record_property: Callable[[str, object], None]
) -> None:
    arrived = received(box)
    box.simulator.delay_search(weather.lag)
    steps = Sending.of(box, arrived, weather).finish()
    for kills in kills_of(steps, CHAOS if chaos else 0):
        Sending.of(box, arrived, weather).finish(kills)
    parked = check_sent_once(box)
    record_property("parked", parked)
    assert parked <= PARKED
    assert box.gmail.list_drafts().get("drafts", []) == []


def test_what_nothing_tells_of_waits_for_a_person(
    box: Mailbox, chaos: bool, record_property: Callable[[str, object], None]
) -> None:
    arrived = received(box)
    box.simulator.delay_search(BLIND.lag)
    steps = Sending.of(box, arrived, BLIND).finish()
    for kills in kills_of(steps, CHAOS_BESIDE) if chaos else [[steps - 1]]:
        Sending.of(box, arrived, BLIND).finish(kills)
    record_property("parked", check_sent_once(box))


def test_a_worker_that_stood_still_at_any_request_sends_nothing_more(
    box: Mailbox, chaos: bool
) -> None:
    arrived = received(box)
    box.simulator.delay_search(LAGGING.lag)
    at = 0
    while at <= Sending.of(box, arrived, LAGGING).finish_overtaken(at):
        at += 1
    random = Random(0)
    for _ in range(CHAOS_BESIDE - at if chaos else 0):
        Sending.of(box, arrived, LAGGING).finish_overtaken(random.randrange(at))
    assert check_sent_once(box) <= PARKED
    assert box.gmail.list_drafts().get("drafts", []) == []
