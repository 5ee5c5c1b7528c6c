"""Actions and undos in any order leave the mailbox as the model says; the owner's changes stay."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.mail.action_machine import FAULTS, OWNERS_LABELS, WAKE_FAULTS, Step, World
from tests.mail.action_model import ACTIONS
from tests.mail.mail_kit import Mailbox

pytestmark = [pytest.mark.django_db, pytest.mark.req("M-15", "M-16", "M-17")]

HISTORIES = 60
WHICH = st.integers(0, 8)
STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("ask"),
            WHICH,
            st.sampled_from(sorted(ACTIONS)),
            st.sampled_from(sorted(FAULTS)),
        ),
        st.tuples(st.just("undo"), WHICH, st.sampled_from(sorted(FAULTS))),
        st.tuples(st.sampled_from(["add", "remove"]), WHICH, st.sampled_from(OWNERS_LABELS)),
        st.tuples(st.just("retry"), st.sampled_from(sorted(FAULTS))),
        st.tuples(st.just("wake"), WHICH, st.sampled_from(WAKE_FAULTS)),
        st.tuples(st.sampled_from(["sync"])),
        st.tuples(st.just("vanish"), WHICH),
    ),
    max_size=14,
)


@settings(
    max_examples=HISTORIES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=STEPS)
def test_after_any_history_the_mailbox_equals_the_model(
    mailbox: Mailbox, steps: list[Step]
) -> None:
    world = World.of(mailbox.firm, mailbox)
    for step in steps:
        world.play(step)
    world.settle()
