"""Which actions wait for an approval, and which checks a rule can be spared."""

from __future__ import annotations

import pytest

from mail.models import ActionType, SafeMode
from mail.rules.safety import DANGER, Check, Danger, SafetyMode, check_safety

pytestmark = pytest.mark.req("M-13")

D, C, L, M = Check.DANGEROUS, Check.LOW_CONFIDENCE, Check.APPROVAL_LIST, Check.ASKED_BY_MODEL


@pytest.mark.parametrize(
    ("action", "options", "checks"),
    [
        ("archive", {}, ()),
        ("snooze", {"confidence": 0.7}, ()),
        ("archive", {"confidence": 0.69}, (C,)),
        ("archive", {"confidence": float("nan")}, (C,)),
        ("archive", {"asked_by_model": True}, (M,)),
        ("archive", {"always_approved": frozenset({"archive"})}, (L,)),
        ("escalate", {"always_approved": frozenset()}, (D,)),
        ("delete", {"confidence": 1.0}, (D, L)),
        ("forward", {"confidence": 0.1, "asked_by_model": True}, (D, C, L, M)),
        ("never heard of", {}, (D,)),
        ("archive", {"confidence": 0.9, "min_confidence": 0.95}, (C,)),
        ("archive", {"confidence": 0.1, "mode": SafetyMode.ALWAYS_SAFE}, ()),
        ("archive", {"asked_by_model": True, "mode": SafetyMode.ALWAYS_SAFE}, (M,)),
        ("delete", {"confidence": 0.1, "mode": SafetyMode.ALWAYS_SAFE}, (D, L)),
        ("auto_reply", {"confidence": 0.1, "mode": SafetyMode.DANGEROUS_OVERRIDE}, ()),
    ],
)
def test_each_check_alone_and_together(action, options, checks):
    verdict = check_safety(action, **options)
    assert verdict.checks == checks
    assert verdict.needs_approval is bool(checks)
    # What fails either asks for an approval, or is spared by the mode.
    failed = check_safety(action, **{**options, "mode": SafetyMode.DEFAULT})
    assert failed.spared == ()
    assert {*verdict.checks, *verdict.spared} == set(failed.checks)
    assert len(verdict.checks) + len(verdict.spared) == len(failed.checks)


def test_what_was_spared_is_told():
    verdict = check_safety("delete", confidence=0.1, mode=SafetyMode.DANGEROUS_OVERRIDE)
    assert not verdict.needs_approval
    assert verdict.spared == ("dangerous", "low_confidence", "approval_list")


def test_every_action_has_a_danger_and_every_mode_of_a_rule_is_known():
    assert set(ActionType.values) <= set(DANGER)
    assert set(SafeMode.values) == {mode.value for mode in SafetyMode}
    dangerous = {action for action, danger in DANGER.items() if danger == Danger.DANGEROUS}
    assert dangerous == {"delete", "forward", "auto_reply", "escalate"}
