"""Which files are read, judged by their names and by their bytes."""

from __future__ import annotations

import io
import zipfile
from enum import StrEnum
from typing import Final


class Kind(StrEnum):
    """A kind of file that is read."""

    PDF = "pdf"
    DOCX = "docx"
    XLSX = "xlsx"
    PPTX = "pptx"
    ODT = "odt"
    ODS = "ods"
    ODP = "odp"
    HTML = "html"
    TEXT = "text"


class Unread(StrEnum):
    """Why a file was not read, or not whole."""

    SWITCHED_OFF = "switched_off"
    TOO_LARGE = "too_large"
    GONE = "gone"
    INFECTED = "infected"
    NOT_SCANNABLE = "not_scannable"
    WRONG_TYPE = "wrong_type"
    ENCRYPTED = "encrypted"
    MACROS = "macros"
    DAMAGED = "damaged"
    UNPACKS_TOO_LARGE = "unpacks_too_large"
    MEMORY = "memory"
    TIME = "time"
    DIED = "died"
    NO_TEXT = "no_text"
    CUT = "cut"
    ERASED = "erased"
    IMPORTED = "imported"
    DISCONNECTED = "disconnected"


class Unreadable(Exception):
    """The file cannot be read, for this reason."""

    def __init__(self, reason: Unread) -> None:
        super().__init__(reason.value)
        self.reason = reason


_OFFICE: Final = "application/vnd.openxmlformats-officedocument"
_OPEN: Final = "application/vnd.oasis.opendocument"
_BY_TYPE: Final = {
    "application/pdf": Kind.PDF,
    f"{_OFFICE}.wordprocessingml.document": Kind.DOCX,
    f"{_OFFICE}.spreadsheetml.sheet": Kind.XLSX,
    f"{_OFFICE}.presentationml.presentation": Kind.PPTX,
    f"{_OPEN}.text": Kind.ODT,
    f"{_OPEN}.spreadsheet": Kind.ODS,
    f"{_OPEN}.presentation": Kind.ODP,
    "text/html": Kind.HTML,
    "text/plain": Kind.TEXT,
    "text/csv": Kind.TEXT,
    "text/markdown": Kind.TEXT,
}
_BY_ENDING: Final = {
    "pdf": Kind.PDF,
    "docx": Kind.DOCX,
    "xlsx": Kind.XLSX,
    "pptx": Kind.PPTX,
    "odt": Kind.ODT,
    "ods": Kind.ODS,
    "odp": Kind.ODP,
    "html": Kind.HTML,
    "htm": Kind.HTML,
    "txt": Kind.TEXT,
    "csv": Kind.TEXT,
    "md": Kind.TEXT,
}
# An entry in the directory of a file that Office encrypted.
_ENCRYPTED: Final = "EncryptedPackage".encode("utf-16-le")
_OLE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_PROGRAMS: Final = (b"MZ", b"\x7fELF", b"#!")
_MAIN_PART: Final = {
    "word/document.xml": Kind.DOCX,
    "xl/workbook.xml": Kind.XLSX,
    "ppt/presentation.xml": Kind.PPTX,
}
_MACROS: Final = "vbaProject.bin"
# The folders of an OpenDocument file's macros, and a word that its manifest has if it is encrypted.
_OPEN_MACROS: Final = ("Basic/", "Scripts/")
_OPEN_ENCRYPTED: Final = b"encryption-data"
_MANIFEST: Final = "META-INF/manifest.xml"
_MOST_READ: Final = 2**20
_HEAD: Final = 1024


def kind_of(filename: str, mime_type: str) -> Kind | None:
    """Return the kind that the file would be read as, None if it is not read at all.

    The ending of the name decides before the declared type, which is often a general one.
    """
    _, dot, ending = filename.rpartition(".")
    if dot and ending.lower() in _BY_ENDING:
        return _BY_ENDING[ending.lower()]
    return _BY_TYPE.get(mime_type.lower())


def detected_type(data: bytes) -> str:
    """Return the type of the bytes: a kind, or a word for a type that is not read.

    Raises:
        Unreadable: it is encrypted, has macros, or is a damaged archive.
    """
    head = data[:_HEAD]
    if b"%PDF-" in head:
        return Kind.PDF
    if data.startswith(b"PK"):
        return _archive_type(data)
    if data.startswith(_OLE):
        if _ENCRYPTED in data:
            raise Unreadable(Unread.ENCRYPTED)
        return "ole"
    if data.startswith(_PROGRAMS):
        return "program"
    if b"\0" in head and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "binary"
    start = head.lstrip().lower()
    return Kind.HTML if start.startswith((b"<!doctype html", b"<html")) else Kind.TEXT


def _archive_type(data: bytes) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = archive.namelist()
            if "mimetype" in names:
                return _open_document_type(archive, names)
    except (zipfile.BadZipFile, ValueError, OSError) as error:
        raise Unreadable(Unread.DAMAGED) from error
    found = [kind for name, kind in _MAIN_PART.items() if name in names]
    if any(name.endswith(_MACROS) for name in names):
        raise Unreadable(Unread.MACROS)
    return found[0] if len(found) == 1 else "zip"


def _open_document_type(archive: zipfile.ZipFile, names: list[str]) -> str:
    """Return which kind of OpenDocument the archive says it is."""
    declared = _beginning(archive, "mimetype").decode("ascii", "replace").strip()
    kind = _BY_TYPE.get(declared) if declared.startswith(_OPEN) else None
    if kind is None:
        return "zip"
    encrypted = _MANIFEST in names and _OPEN_ENCRYPTED in _beginning(archive, _MANIFEST)
    if encrypted or "encrypted-package" in names:
        raise Unreadable(Unread.ENCRYPTED)
    if any(name.startswith(_OPEN_MACROS) for name in names):
        raise Unreadable(Unread.MACROS)
    return kind if "content.xml" in names else "zip"


def _beginning(archive: zipfile.ZipFile, name: str) -> bytes:
    with archive.open(name) as entry:
        return entry.read(_MOST_READ)


def check_type(kind: Kind, found: str) -> None:
    """Check that the bytes are what the file's name promises; HTML and text count as the same.

    Raises:
        Unreadable: they are something else.
    """
    plain = (Kind.HTML, Kind.TEXT)
    if found != kind and not (kind in plain and found in plain):
        raise Unreadable(Unread.WRONG_TYPE)
