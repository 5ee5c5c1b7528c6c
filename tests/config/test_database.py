"""How long a connection waits for a network that is gone."""

from __future__ import annotations

import pytest

from config.database import silence_options


@pytest.mark.req("W-04", "J-14")
@pytest.mark.parametrize("lease_seconds", [3.0, 12.0, 30.0, 600.0])
def test_a_silent_connection_is_given_up_in_time_to_try_again_before_the_lease_ends(
    lease_seconds: float,
) -> None:
    options = silence_options(lease_seconds)
    assert options["tcp_user_timeout"] <= min(10.0, lease_seconds / 3) * 1000
    assert options["keepalives_idle"] + options["keepalives_interval"] <= 10
    assert 2 <= options["connect_timeout"] <= 10
