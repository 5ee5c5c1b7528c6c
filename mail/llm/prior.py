"""The trained prior: written by `python -m tests.benchmarks.offline --write`, not by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

BIAS: Final = -4.688
WEIGHTS: Final[Mapping[str, float]] = {
    "addressed": 0.125,
    "addressed_first": 0.134,
    "addressed_alone": 0.528,
    "copied": -0.311,
    "recipients": -0.181,
    "named_sender": 0.663,
    "role_sender": -0.380,
    "numbered_sender": -0.126,
    "other_return_path": -0.680,
    "html_only": -0.293,
    "links": -0.464,
    "unsubscribe": -0.334,
    "few_words": -0.431,
    "exclamations": -0.105,
    "capitals": -0.937,
    "emoticon": -0.639,
    "question": 0.226,
    "asks": 0.294,
    "many_questions": -0.342,
    "asks_you": 0.842,
    "question_to_you": 0.462,
    "asks_briefly": 0.927,
    "asks_last": 1.376,
}
"""The weight of each feature, in log odds of an answer."""
