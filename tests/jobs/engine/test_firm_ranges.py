"""The ranges of a firm scan cover every firm once, in visiting order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.engine.dialects.claim_parameters import LAST_FIRM, firm_ranges

pytestmark = pytest.mark.req("J-23")


@given(after=st.integers(0, 30), until=st.integers(0, 30))
def test_a_scan_covers_every_firm_once(after: int, until: int) -> None:
    ranges = firm_ranges(2, after, until)
    scanned = [
        firm_id for one in ranges for firm_id in range(one.after + 1, min(one.until, 40) + 1)
    ]
    ahead = [one for one in range(1, 41) if one > after and (one <= until or until <= after)]
    behind = list(range(1, until + 1)) if until <= after else []
    assert scanned == ahead + behind
    assert max((one.until for one in ranges), default=0) <= LAST_FIRM
