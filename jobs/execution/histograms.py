"""Histograms for this process's metrics that take a batch of observations at once."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from prometheus_client import REGISTRY, Metric
from prometheus_client.core import HistogramMetricFamily
from prometheus_client.registry import Collector


class BatchHistogram(Collector):
    """A histogram with one label; the library's own takes locks for each single observation."""

    def __init__(self, name: str, help_text: str, label: str, bounds: Sequence[float]) -> None:
        self._name = name
        self._help_text = help_text
        self._label = label
        self._bounds = tuple(bounds)
        self._lock = threading.Lock()
        # Per value of the label: how many fell into each bucket and above the last, and their sum.
        self._counts: dict[str, list[int]] = {}
        self._sums: dict[str, float] = {}
        REGISTRY.register(self)

    def observe(self, label: str, seconds: Iterable[float]) -> None:
        """Add these observations."""
        bounds = self._bounds
        observed = list(seconds)
        with self._lock:
            counts = self._counts.setdefault(label, [0] * (len(bounds) + 1))
            for one in observed:
                counts[bisect_left(bounds, one)] += 1
            self._sums[label] = self._sums.get(label, 0.0) + sum(observed)

    def describe(self) -> Iterator[Metric]:
        """Name the metric: the registry asks when this is registered."""
        yield self._family()

    def collect(self) -> Iterator[Metric]:
        """Return what was observed."""
        family = self._family()
        names = [*(str(float(bound)) for bound in self._bounds), "+Inf"]
        with self._lock:
            for label, counts in self._counts.items():
                buckets = list(zip(names, accumulate(counts), strict=True))
                family.add_metric([label], buckets, self._sums[label])
        yield family

    def _family(self) -> HistogramMetricFamily:
        return HistogramMetricFamily(self._name, self._help_text, labels=[self._label])
