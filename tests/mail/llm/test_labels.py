"""The labels a person sees in Gmail."""

from __future__ import annotations

import pytest

from mail.labels import LABEL_NAMES, STATE_LABELS, LabelKey

pytestmark = pytest.mark.req("M-09")


def test_there_are_nine_labels_and_the_parent_comes_first():
    assert len(LABEL_NAMES) == 9
    assert set(LABEL_NAMES) == set(LabelKey)
    assert next(iter(LABEL_NAMES)) is LabelKey.PARENT


def test_all_but_the_parent_are_its_children():
    parent = LABEL_NAMES[LabelKey.PARENT]
    children = [name for key, name in LABEL_NAMES.items() if key is not LabelKey.PARENT]
    assert all(name.startswith(f"{parent}/") for name in children)
    assert len(set(children)) == 8


def test_done_takes_away_the_seven_labels_of_state():
    assert len(STATE_LABELS) == 7
    assert not {LabelKey.PARENT, LabelKey.DONE} & STATE_LABELS
