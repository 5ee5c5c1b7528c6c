"""An order for a rework that comes while another is carried out is not lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from jobs.operations import limits
from jobs.queue import cancel
from mail.errors import WrongState
from mail.gmail.errors import GmailUnavailable
from mail.labels import LabelKey
from mail.models import MAX_INSTRUCTION_LENGTH, Draft
from mail.services.drafting import write_draft
from mail.services.drafting.gmail_drafts import NO_INSTRUCTION
from mail.services.drafting.operations import request_rework
from tests.mail.draft_kit import (
    MARK,
    asked,
    change_draft,
    edit,
    give_label,
    in_gmail,
    listed,
    order,
    prepared,
    synced,
    versions,
    while_composing,
)
from tests.mail.mail_kit import Mailbox, drain, jobs, stored
from tests.mail.services.drafting.test_edits import as_html
from tests.queue_kit import later

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-19")]

FIRST = "Shorter, please."
ORDERS = [
    (FIRST, f"{FIRST} And offer Anna 10 percent."),
    (FIRST, "Longer, please."),
    ("", FIRST),
    (FIRST, ""),
]


def text_below(mailbox: Mailbox) -> str:
    """Return the text below the marker of the only draft."""
    (draft,) = in_gmail(mailbox)
    return str(draft.get_content().partition(MARK)[2])


def rework_and(
    mailbox: Mailbox,
    monkeypatch: pytest.MonkeyPatch,
    step: Callable[[], object],
    first: str = FIRST,
) -> None:
    """Ask for a rework by the label, and do something while the rework is composed."""
    arrived = asked(prepared(mailbox))
    if first:
        order(mailbox, first)
    give_label(mailbox, arrived, LabelKey.REWORK)
    while_composing(monkeypatch, step)
    synced(mailbox)


@pytest.mark.parametrize(
    ("first", "then"), ORDERS, ids=["goes on", "another", "begins", "withdrawn"]
)
def test_a_rework_begins_again_where_the_order_was_changed_meanwhile(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch, first: str, then: str
) -> None:
    changed: list[object] = []

    def go_on() -> None:
        edit(mailbox, f"{then}\n{MARK}{text_below(mailbox)}")
        changed.extend(listed(mailbox))

    rework_and(mailbox, monkeypatch, go_on, first)
    assert listed(mailbox) == changed
    with later(3600):
        drain()
    assert versions() == [
        ("automatic", "replaced", 0),
        ("rework", "canceled", 1),
        ("rework", "ready", 1),
    ]
    assert [row.instruction for row in stored(Draft)][1:] == [
        first or NO_INSTRUCTION,
        then or NO_INSTRUCTION,
    ]
    assert then in text_below(mailbox)
    assert len(jobs("rework", live=False)) == 1


def test_a_changed_order_is_followed_beside_a_draft_that_was_edited_too(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    rework_and(mailbox, monkeypatch, lambda: edit(mailbox, f"Longer.\n{MARK}\nMy own words."))
    with later(3600):
        drain()
    newer, older = (draft.get_content() for draft in in_gmail(mailbox))
    assert "Longer." in newer
    assert "My own words." in older
    assert [status for _, status, _ in versions()] == ["kept", "canceled", "ready"]


def test_an_order_that_gmail_only_stored_anew_is_the_same(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    rework_and(mailbox, monkeypatch, lambda: change_draft(mailbox, as_html))
    assert versions() == [("automatic", "replaced", 0), ("rework", "ready", 1)]


def test_a_draft_without_its_marker_stays_beside_the_rework(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    rework_and(mailbox, monkeypatch, lambda: edit(mailbox, "My own words."))
    assert versions() == [("automatic", "kept", 0), ("rework", "ready", 1)]
    assert "My own words." in in_gmail(mailbox)[1].get_content()


def test_an_order_from_outside_gmail_is_refused_while_a_rework_runs(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(prepared(mailbox))
    (draft,) = stored(Draft)
    refused: list[str] = []

    def ask_meanwhile() -> None:
        with pytest.raises(WrongState) as error:
            request_rework(draft, instruction="Offer a call on Friday.")
        refused.append(str(error.value))

    request_rework(draft, instruction=FIRST)
    while_composing(monkeypatch, ask_meanwhile)
    drain()
    assert refused == ["The draft is being reworked; ask again once that is done."]
    old, new = stored(Draft)
    assert (old.next_instruction, new.instruction) == (FIRST, FIRST)

    request_rework(new, instruction="Offer a call on Friday.")
    drain()
    assert "Offer a call on Friday." in text_below(mailbox)


def test_an_order_while_a_rework_waits_to_be_tried_again_is_carried_out(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked(prepared(mailbox))
    (draft,) = stored(Draft)
    retire = write_draft.retire

    def fails(*_: object) -> str:
        monkeypatch.setattr(write_draft, "retire", retire)
        raise GmailUnavailable(reason="timeout")

    monkeypatch.setattr(write_draft, "retire", fails)
    request_rework(draft, instruction=FIRST)
    drain()
    assert [job.status for job in jobs("rework")] == ["pending"]
    assert versions()[-1] == ("rework", "writing", 1)

    request_rework(draft, instruction="Offer a call on Friday.")
    for hours in (1, 2):
        with later(hours * 3600):
            drain()
    assert "Offer a call on Friday." in text_below(mailbox)
    assert [status for _, status, _ in versions()] == ["replaced", "canceled", "ready"]


LATER = "Offer a call on Friday."


def carried_out(mailbox: Mailbox) -> str:
    """Run the waiting reworks; return the text of the only draft."""
    drain()
    assert jobs("rework") == []
    return text_below(mailbox)


@pytest.mark.parametrize(
    ("orders", "said"),
    [
        ((FIRST, LATER), f"{FIRST}\n\n{LATER}"),
        ((FIRST, ""), FIRST),
        (("", FIRST), FIRST),
        ((FIRST, FIRST), FIRST),
        ((FIRST, LATER, LATER), f"{FIRST}\n\n{LATER}"),
    ],
    ids=["two", "nothing more", "nothing before", "twice", "once more"],
)
def test_orders_given_before_the_rework_begins_are_carried_out_together(
    mailbox: Mailbox, orders: tuple[str, ...], said: str
) -> None:
    asked(prepared(mailbox))
    (draft,) = stored(Draft)
    for one in orders:
        request_rework(draft, instruction=one)
    carried_out(mailbox)
    assert stored(Draft)[-1].instruction == said
    assert versions() == [("automatic", "replaced", 0), ("rework", "ready", 1)]


def test_an_order_beside_which_another_finds_no_room_is_carried_out(mailbox: Mailbox) -> None:
    asked(prepared(mailbox))
    (draft,) = stored(Draft)
    request_rework(draft, instruction="x" * (MAX_INSTRUCTION_LENGTH - 10))
    with pytest.raises(WrongState, match="once it is done"):
        request_rework(draft, instruction=LATER)
    carried_out(mailbox)
    assert stored(Draft)[-1].instruction == "x" * (MAX_INSTRUCTION_LENGTH - 10)


def test_an_order_that_came_to_nothing_is_not_carried_out_with_the_next(mailbox: Mailbox) -> None:
    asked(prepared(mailbox))
    (draft,) = stored(Draft)
    request_rework(draft, instruction=FIRST)
    cancel(jobs("rework")[0])
    request_rework(draft, instruction=LATER)
    carried_out(mailbox)
    assert stored(Draft)[-1].instruction == LATER


@pytest.mark.parametrize("before", [True, False], ids=["before", "while"])
def test_an_order_for_a_draft_that_a_newer_mail_replaces_is_carried_out_on_the_new_one(
    mailbox: Mailbox, monkeypatch: pytest.MonkeyPatch, before: bool
) -> None:
    asked(prepared(mailbox))
    (draft,) = stored(Draft)
    while_composing(
        monkeypatch, lambda: None if before else request_rework(draft, instruction=LATER)
    )
    if before:
        pause = limits.pause(firm=mailbox.firm, job_type="rework", reason="test")
        request_rework(draft, instruction=LATER)
    asked(mailbox, "And how long does it take?", message_id="<q2@customer.example>",
          reply_to_id="<q1@customer.example>")  # fmt: skip
    if before:
        assert versions() == [("automatic", "withdrawn", 0), ("automatic", "ready", 0)]
        limits.resume(pause)
    assert LATER in carried_out(mailbox)
    assert [status for _, status, _ in versions()] == ["withdrawn", "replaced", "ready"]
