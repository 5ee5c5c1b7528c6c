"""A histogram that takes batches says what the library's own would say of each observation."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import REGISTRY, CollectorRegistry, Histogram, generate_latest

from jobs.execution.histograms import BatchHistogram

BOUNDS = (0.005, 0.1, 1, 60)
_numbers = count()

pytestmark = pytest.mark.req("W-07")


@given(batches=st.lists(st.tuples(st.sampled_from("ab"), st.lists(st.floats(0, 100)))))
def test_it_counts_as_the_library_does(batches: list[tuple[str, list[float]]]) -> None:
    name = f"test_seconds_{next(_numbers)}"
    ours = BatchHistogram(name, "Seconds", "category", BOUNDS)
    REGISTRY.unregister(ours)
    apart, mine = CollectorRegistry(), CollectorRegistry()
    mine.register(ours)
    theirs = Histogram(name, "Seconds", ["category"], buckets=BOUNDS, registry=apart)
    for label, seconds in batches:
        ours.observe(label, seconds)
        for one in seconds:
            theirs.labels(label).observe(one)
    labels = {label for label, _ in batches}
    for label in labels:
        for bound in ("0.005", "0.1", "1.0", "60.0", "+Inf"):
            of_bucket = {"category": label, "le": bound}
            assert mine.get_sample_value(f"{name}_bucket", of_bucket) == (
                apart.get_sample_value(f"{name}_bucket", of_bucket) or 0
            )
        total = mine.get_sample_value(f"{name}_sum", {"category": label})
        assert total == pytest.approx(
            apart.get_sample_value(f"{name}_sum", {"category": label}) or 0
        )
    assert f"# TYPE {name} histogram" in generate_latest(mine).decode()


def test_a_name_is_taken_once() -> None:
    name = f"test_seconds_{next(_numbers)}"
    first = BatchHistogram(name, "Seconds", "category", BOUNDS)
    with pytest.raises(ValueError, match=name):
        BatchHistogram(name, "Seconds", "category", BOUNDS)
    REGISTRY.unregister(first)
