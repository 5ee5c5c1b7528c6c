"""Reads the files of an export's zip, which may be damaged, or made by anybody."""

from __future__ import annotations

import json
import struct
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NoReturn

from mail.errors import FaultyInput

MANIFEST = "manifest.json"
# A row is at most a message's text and HTML, or a job's payload: a longer line is no row.
MAX_LINE_BYTES = 64 * 1024 * 1024
_WRITTEN_BY_EXPORTS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# Bits of a file's flags: encrypted, patched data, strong encryption.
_UNREADABLE = 0x01 | 0x20 | 0x40
# What zipfile raises on bytes that are no zip, or were changed since they were written.
_DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    EOFError,
    NotImplementedError,
    OverflowError,
    ValueError,
)


class ExportArchive:
    """The files of a zip by name."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self.names = frozenset(archive.namelist())
        if len(self.names) < len(archive.namelist()):
            raise faulty("has two files of one name")
        for one in archive.infolist():
            if one.flag_bits & _UNREADABLE or one.compress_type not in _WRITTEN_BY_EXPORTS:
                raise faulty(f"has a file that is packed in another way than an export's: {one}")

    def manifest(self) -> dict[str, Any]:
        """Return the manifest.

        Raises:
            FaultyInput: there is no manifest, or it is no JSON object.
        """
        if MANIFEST not in self.names:
            raise faulty(f"is no export: it has no {MANIFEST}")
        with _damage_in(MANIFEST), self._archive.open(MANIFEST) as file:
            return _parsed(file.read(MAX_LINE_BYTES), MANIFEST)

    def rows(self, name: str) -> Iterator[tuple[str, dict[str, Any]]]:
        """Yield each row of a file with a text that names its line; nothing without such a file.

        Raises:
            FaultyInput: the file is damaged, or a line of it is no JSON object.
        """
        if name not in self.names:
            return
        with _damage_in(name), self._archive.open(name) as lines:
            number = 0
            while line := lines.readline(MAX_LINE_BYTES):
                number += 1
                place = f"line {number} of {name}"
                yield place, _parsed(line, place)


@contextmanager
def open_export(file: Path | IO[bytes]) -> Iterator[ExportArchive]:
    """Open an export's zip and give its files.

    Raises:
        FaultyInput: the file is no zip, or not one that an export writes.
    """
    with _damage_in("the zip"):
        archive = zipfile.ZipFile(file)
    with archive:
        yield ExportArchive(archive)


def faulty(message: str) -> FaultyInput:
    """Return the error that refuses the file."""
    return FaultyInput([{"field": "file", "code": "invalid", "message": message}])


@contextmanager
def _damage_in(name: str) -> Iterator[None]:
    try:
        yield
    except _DAMAGE as error:
        raise faulty(f"is damaged, or no export: {name} cannot be read") from error


def _parsed(text: bytes, place: str) -> dict[str, Any]:
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise faulty(f"is no export: {place} is no JSON object")
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
