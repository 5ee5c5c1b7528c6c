"""A disk so small that a test can fill it to the last byte."""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

CHUNK = bytes(64 * 1024)


class Disk:
    """A mounted folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"

    def fill(self) -> None:
        """Leave no free space."""
        with self._filler.open("ab", buffering=0) as filler:
            for size in (len(CHUNK), 512, 1):
                try:
                    while filler.write(CHUNK[:size]):
                        pass
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise

    def empty(self) -> None:
        """Free the space again."""
        self._filler.unlink()


@contextmanager
def small_disk(path: Path, megabytes: int) -> Iterator[Disk]:
    """Mount a small disk inside the block; skip the test if that cannot be done."""
    path.mkdir(parents=True)
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small disk")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=1777", "tmpfs", str(path)],
        capture_output=True,
        text=True,
    )
    if mounted.returncode:
        pytest.skip(f"no small disk can be mounted here: {mounted.stderr.strip()}")
    try:
        yield Disk(path)
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)
