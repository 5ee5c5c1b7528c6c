"""The trained prior: written by `python -m tests.benchmarks.offline --write`, not by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

BIAS: Final = -3.186
WEIGHTS: Final[Mapping[str, float]] = {
    "addressed": 0.791,
    "addressed_first": 0.000,
    "addressed_alone": 0.627,
    "copied": -0.767,
    "recipients": -0.000,
    "named_sender": 0.823,
    "role_sender": -2.836,
    "numbered_sender": -0.227,
    "other_return_path": -1.188,
    "html_only": -0.827,
    "links": -1.791,
    "unsubscribe": -0.000,
    "few_words": -1.697,
    "exclamations": -0.534,
    "capitals": -3.158,
    "emoticon": -0.000,
    "question": 0.000,
    "asks": 0.000,
    "many_questions": -0.378,
    "asks_you": 0.689,
    "question_to_you": 0.000,
    "asks_briefly": 0.171,
    "asks_last": 1.746,
    "wants": 2.660,
    "sells": -2.026,
    "settles": -0.000,
    "settles_only": -2.549,
}
"""The weight of each feature, in log odds of an answer."""
