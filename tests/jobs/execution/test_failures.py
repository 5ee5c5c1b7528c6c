"""What is stored of an exception."""

from __future__ import annotations

import pytest

from jobs.engine.outcomes import MESSAGE_LIMIT, TRACEBACK_LIMIT, Failure, failure_of
from jobs.errors import Retryable


def raised(error: Exception, job_type: str = "sync") -> Failure:
    with pytest.raises(type(error)) as caught:
        raise error
    return failure_of(caught.value, job_type)


def raised_elsewhere(error: Exception, job_type: str = "sync") -> Failure:
    with pytest.raises(type(error)) as caught:
        raise error
    return failure_of(caught.value, job_type)


@pytest.mark.req("J-13")
def test_class_message_and_traceback_are_kept():
    failure = raised(KeyError("name"))
    assert failure.error_class == "KeyError"
    assert failure.message == "'name'"
    assert "in raised" in failure.traceback
    assert failure.traceback.rstrip().endswith("KeyError: 'name'")


@pytest.mark.req("J-13")
def test_classes_of_ours_carry_their_module():
    assert raised(Retryable("busy")).error_class == "jobs.errors.Retryable"


@pytest.mark.req("J-13")
def test_message_and_traceback_are_redacted_and_cut():
    failure = raised(ValueError("ada@example.org " + "x" * 100_000))
    assert "ada@example.org" not in failure.message + failure.traceback
    assert len(failure.message) <= MESSAGE_LIMIT
    assert len(failure.traceback) <= TRACEBACK_LIMIT


@pytest.mark.req("J-13")
def test_an_error_that_cannot_be_spelled_is_kept_all_the_same():
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    failure = raised(Mute())
    assert failure.error_class.endswith("Mute")
    assert len(failure.fingerprint) == 16


def pairs() -> list[tuple[str, str]]:
    return [
        ("job 17 took 30 s", "job 18 took 31.5 s"),
        (
            "no row 519f1915-a69d-4df0-891a-c72159b9fd46",
            "no row 4cffc7a7-ba8f-4cff-85db-e564e9122639",
        ),
        ("no message 18c2f3a9b7d1e4f5", "no message 19d1aa02b3c4d5e6"),
        ("unknown label 'Work'", "unknown label 'Home'"),
        ('unknown label "Work"', 'unknown label "Home"'),
        ("object at 0x7f3a10", "object at 0x7fffb2"),
        ("no mailbox ada@example.org", "no mailbox bob@example.net"),
    ]


@pytest.mark.req("D-01")
@pytest.mark.parametrize(("one", "other"), pairs())
def test_the_same_failure_has_the_same_fingerprint(one: str, other: str):
    assert raised(ValueError(one)).fingerprint == raised(ValueError(other)).fingerprint


@pytest.mark.req("D-01")
def test_other_failures_have_other_fingerprints():
    prints = {
        raised(ValueError("broken pipe")).fingerprint,
        raised(ValueError("no such label")).fingerprint,
        raised(KeyError("broken pipe")).fingerprint,
        raised(ValueError("broken pipe"), "ingest").fingerprint,
        raised_elsewhere(ValueError("broken pipe")).fingerprint,
    }
    assert len(prints) == 5
    assert all(len(print_) == 16 for print_ in prints)
