"""What Gmail counts for requests, by its page on usage limits, and how fast Mailroom spends it."""

from __future__ import annotations

from typing import Final

READ: Final = 5
MODIFY: Final = 5
BATCH_MODIFY: Final = 50
DRAFT: Final = 10
SEND: Final = 100
WATCH: Final = 100
# Of Gmail's 15,000 a minute for each user: the rest is for the person's other programs.
A_MINUTE: Final = 9_000
AT_ONCE: Final = 1_500
