"""Makes a key if none is set, and keeps it in a file that only this account can read."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Callable
from pathlib import Path


def generated_key(path: Path, make_key: Callable[[], str]) -> str:
    """Return the key in the file; make and store one if there is no file."""
    if not path.exists():
        draft = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
        draft.touch(mode=0o600)
        draft.write_text(make_key(), encoding="ascii")
        with contextlib.suppress(FileExistsError):
            # A hard link fails if the file exists, so of processes that start together one wins.
            path.hardlink_to(draft)
        draft.unlink()
    return path.read_text(encoding="ascii").strip()
