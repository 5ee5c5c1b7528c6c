"""The trained prior: written by `python -m tests.benchmarks.offline --write`, not by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

BIAS: Final = -3.261
WEIGHTS: Final[Mapping[str, float]] = {
    "addressed": 0.792,
    "addressed_alone": 0.659,
    "copied": -0.769,
    "named_sender": 0.856,
    "role_sender": -2.946,
    "numbered_sender": -0.071,
    "other_return_path": -1.155,
    "html_only": -0.871,
    "links": -1.831,
    "unsubscribe": -0.000,
    "few_words": -1.717,
    "exclamations": -0.560,
    "capitals": -3.277,
    "many_questions": -0.369,
    "asks_you": 0.659,
    "asks_briefly": 0.373,
    "asks_last": 1.637,
    "wants": 2.609,
    "sells": -2.453,
    "settles_only": -2.549,
}
"""The weight of each feature, in log odds of an answer."""
