"""Gmail's quota units of each request, by its usage limits, and how fast Mailroom spends them."""

from __future__ import annotations

from typing import Final

READ: Final = 5
READ_THREAD: Final = 10
MODIFY: Final = 5
BATCH_MODIFY: Final = 50
DRAFT: Final = 10
SEND: Final = 100
WATCH: Final = 100
# Gmail allows each user 15,000 units a minute; the rest is left to the owner's other programs.
A_MINUTE: Final = 9_000
AT_ONCE: Final = 1_500
