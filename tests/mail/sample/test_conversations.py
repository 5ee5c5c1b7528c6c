"""The sample's conversations: times, references and subjects fit together."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from tests.mail.sample.samples import Sample, all_samples, expected, inbox, with_ids

FIRST = datetime(2026, 10, 26, tzinfo=UTC)
LAST = datetime(2026, 11, 16, tzinfo=UTC)
LONGEST_DELIVERY = timedelta(minutes=10)
REPLY_PREFIX = re.compile(r"^(?:(?:re|aw)\s*:\s*)+", re.IGNORECASE)


def conversation_subject(sample: Sample) -> str:
    return REPLY_PREFIX.sub("", sample.decoded_header("Subject"))


def is_automatic(sample: Sample) -> bool:
    return (sample.header("Auto-Submitted") or "no") != "no"


def answered_and_quiet(sample: Sample) -> bool:
    """Tell whether the owner answered a message and no person has written there since."""
    later = [other for other in all_samples() if sample.message_id in other.references]
    people = [other for other in later if not is_automatic(other)]
    return bool(people) and not max(people, key=lambda other: other.time).received_mail


@pytest.mark.req("M-03")
def test_every_message_lies_in_the_three_weeks() -> None:
    times = [sample.time for sample in all_samples()]
    assert all(FIRST <= time < LAST for time in times)
    assert max(times) - min(times) > timedelta(days=19)


def test_the_weekday_in_each_date_is_right() -> None:
    dated = [(sample, sample.sent_at) for sample in all_samples() if sample.sent_at]
    assert len(dated) == len(all_samples()) - 1
    for sample, moment in dated:
        assert (sample.header("Date") or "").startswith(f"{moment:%a}, "), sample.name


def test_mail_arrives_shortly_after_it_was_sent() -> None:
    for sample in inbox():
        assert sample.arrived_at is not None, f"{sample.name} has no Received header"
        assert sample.time <= sample.arrived_at <= sample.time + LONGEST_DELIVERY, sample.name


def test_files_are_numbered_in_order_of_time() -> None:
    for folder in ("inbox/", "sent/"):
        samples = [sample for sample in all_samples() if sample.name.startswith(folder)]
        assert [sample.name[len(folder) :][:3] for sample in samples] == [
            f"{number:03d}" for number in range(1, len(samples) + 1)
        ]
        assert samples == sorted(samples, key=lambda sample: sample.time)


@pytest.mark.req("M-03")
def test_every_reference_resolves_to_an_earlier_message() -> None:
    known = with_ids()
    replies = [sample for sample in all_samples() if sample.references]
    assert len(replies) >= 12
    for sample in replies:
        for reference in sample.references:
            assert reference in known, f"{sample.name}: {reference}"
            assert known[reference].time < sample.time, sample.name


@pytest.mark.req("M-03")
def test_a_reply_keeps_the_subject_of_its_conversation() -> None:
    known = with_ids()
    replies = [sample for sample in all_samples() if sample.references and not is_automatic(sample)]
    for sample in replies:
        parent = known[sample.references[-1]]
        assert conversation_subject(sample) == conversation_subject(parent), sample.name


@pytest.mark.req("M-03")
def test_the_longest_conversations_go_back_and_forth() -> None:
    known = with_ids()
    turns = [
        [known[reference].received_mail for reference in sample.references] + [sample.received_mail]
        for sample in all_samples()
        if len(sample.references) >= 3
    ]
    assert len(turns) >= 2
    assert all(True in sides and False in sides for sides in turns)


@pytest.mark.req("M-09")
def test_what_the_owner_answered_last_is_expected_to_wait() -> None:
    answered = {sample.name for sample in inbox() if answered_and_quiet(sample)}
    waiting = {name for name, row in expected().items() if row.categories[0] == "waiting"}
    assert waiting == answered
    assert len(waiting) >= 2
