"""A signal's exception amid the engine's pipelines comes out as itself, and harms nothing."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from jobs.models import JobQueue
from jobs.queue import EnqueueSpec, enqueue, enqueue_many
from tenants.models import Firm
from tenants.scope import firm_scope
from tests.support.databases import postgresql_only

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("J-05"), postgresql_only]

# More than are stored in one statement, so that they take a pipeline.
MANY = 500


def enqueue_many_of(firm: Firm) -> None:
    enqueue_many([EnqueueSpec("noop", {})] * MANY, firm=firm)


def stored(firm: Firm) -> int:
    with firm_scope(firm):
        return JobQueue.objects.count()


def test_an_interrupt_while_a_pipeline_ends_is_not_hidden(
    firm: Firm, monkeypatch: pytest.MonkeyPatch
) -> None:
    end: Callable[..., Any] = psycopg.Pipeline._exit_gen
    interrupts: list[int] = []

    def interrupted(*_: Any) -> None:
        interrupts.append(1)
        raise KeyboardInterrupt

    def ending(pipeline: Any) -> Any:
        with monkeypatch.context() as patched:
            patched.setattr(psycopg.Cursor, "_set_results", interrupted)
            yield from end(pipeline)

    with monkeypatch.context() as patched:
        patched.setattr(psycopg.Pipeline, "_exit_gen", ending)
        with pytest.raises(KeyboardInterrupt):
            enqueue_many_of(firm)
    assert interrupts == [1]
    assert stored(firm) == 0
    enqueue("noop", {}, firm=firm)
    assert stored(firm) == 1


def test_an_interrupt_at_any_moment_comes_out_as_itself(firm: Firm) -> None:
    """A real signal, later and later: before, amid and after the statements."""
    before = signal.signal(signal.SIGALRM, signal.default_int_handler)
    interrupts = 0
    try:
        for attempt in range(60):
            signal.setitimer(signal.ITIMER_REAL, 0.001 + attempt * 0.002)
            try:
                enqueue_many_of(firm)
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt:
                interrupts += 1
            assert stored(firm) % MANY == 0
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert interrupts > 0
