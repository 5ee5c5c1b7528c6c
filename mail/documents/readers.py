"""Reads the text of files, in pieces. Runs in a process of its own: the libraries are loaded here."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator
from typing import Final
from xml.etree import ElementTree

from mail.documents.kinds import Kind, Unread, Unreadable
from mail.text.charsets import decode_bytes, html_charset
from mail.text.html_text import html_to_text

MAX_PAGES: Final = 500
MAX_UNPACKED: Final = 200 * 2**20
MAX_ENTRIES: Final = 10_000
_WORD: Final = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_TEXT: Final = "{urn:oasis:names:tc:opendocument:xmlns:text:1.0}"
_PARAGRAPHS: Final = (f"{_TEXT}p", f"{_TEXT}h")
_GAPS: Final = (f"{_TEXT}s", f"{_TEXT}tab", f"{_TEXT}line-break")
_DELETED: Final = f"{_TEXT}tracked-changes"
_DRAWING: Final = "{http://schemas.openxmlformats.org/drawingml/2006/main}"

Reader = Callable[[bytes], Iterator[str]]


def check_unpacked(data: bytes) -> None:
    """Refuse an archive whose declared size is too large; Python unpacks no more than declared.

    Raises:
        Unreadable: the size or the number of entries is too large.
    """
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        entries = archive.infolist()
    if len(entries) > MAX_ENTRIES or sum(one.file_size for one in entries) > MAX_UNPACKED:
        raise Unreadable(Unread.UNPACKS_TOO_LARGE)


def _pdf(data: bytes) -> Iterator[str]:
    from pypdf import PdfReader
    from pypdf.errors import LimitReachedError

    reader = PdfReader(io.BytesIO(data))
    # Many files are encrypted with an empty password, which forbids printing but not reading.
    if reader.is_encrypted and not reader.decrypt(""):
        raise Unreadable(Unread.ENCRYPTED)
    try:
        for number, page in enumerate(reader.pages):
            if number >= MAX_PAGES:
                raise Unreadable(Unread.CUT)
            yield page.extract_text()
    except LimitReachedError as error:
        raise Unreadable(Unread.UNPACKS_TOO_LARGE) from error


def _docx(data: bytes) -> Iterator[str]:
    from docx import Document

    document = Document(io.BytesIO(data))
    # Read by XML elements, because document.paragraphs leaves out text boxes and nested tables.
    for paragraph in document.element.body.iter(f"{_WORD}p"):
        yield "".join(one.text or "" for one in paragraph.iter(f"{_WORD}t"))
    for section in document.sections:
        for edge in (section.header, section.footer):
            yield from (paragraph.text for paragraph in edge.paragraphs)


def _xlsx(data: bytes) -> Iterator[str]:
    from openpyxl import load_workbook

    workbook = load_workbook(io.BytesIO(data), read_only=True, data_only=True)
    for sheet in workbook.worksheets:
        yield sheet.title
        # A sheet may claim to have any number of columns, so its declared size is not used.
        sheet.reset_dimensions()
        for row in sheet.iter_rows(values_only=True):
            yield "\t".join(str(value) for value in row if value is not None)


def _pptx(data: bytes) -> Iterator[str]:
    from pptx import Presentation

    for slide in Presentation(io.BytesIO(data)).slides:
        for shape in slide.shapes:
            for paragraph in shape.element.iter(f"{_DRAWING}p"):
                yield "".join(one.text or "" for one in paragraph.iter(f"{_DRAWING}t"))
        if slide.has_notes_slide:
            frame = slide.notes_slide.notes_text_frame
            yield frame.text if frame is not None else ""


def _odt(data: bytes) -> Iterator[str]:
    yield from _open_document(data, "content.xml")
    # Headers and footers.
    yield from _open_document(data, "styles.xml")


def _content(data: bytes) -> Iterator[str]:
    yield from _open_document(data, "content.xml")


def _open_document(data: bytes, part: str) -> Iterator[str]:
    """Read the paragraphs of one part, without what was deleted under tracked changes."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        if part not in archive.namelist():
            return
        with archive.open(part) as stream:
            is_deleted = False
            # The parser resolves no external entity, and this process has limits.
            for event, element in ElementTree.iterparse(stream, ("start", "end")):  # noqa: S314
                if element.tag == _DELETED:
                    is_deleted = event == "start"
                elif event == "end" and element.tag in _PARAGRAPHS:
                    if not is_deleted:
                        yield _said(element)
                    # Cleared, so that a paragraph in a frame is not repeated with the paragraph
                    # around it.
                    tail = element.tail
                    element.clear()
                    element.tail = tail


def _said(element: ElementTree.Element) -> str:
    pieces = [element.text or ""]
    for child in element:
        pieces += [" " if child.tag in _GAPS else _said(child), child.tail or ""]
    return "".join(pieces)


def _html(data: bytes) -> Iterator[str]:
    yield html_to_text(decode_bytes(data, html_charset(data))).shown


def _text(data: bytes) -> Iterator[str]:
    yield decode_bytes(data)


READERS: dict[Kind, Reader] = {
    Kind.PDF: _pdf,
    Kind.DOCX: _docx,
    Kind.XLSX: _xlsx,
    Kind.PPTX: _pptx,
    Kind.ODT: _odt,
    Kind.ODS: _content,
    Kind.ODP: _content,
    Kind.HTML: _html,
    Kind.TEXT: _text,
}
ARCHIVES: Final = (Kind.DOCX, Kind.XLSX, Kind.PPTX, Kind.ODT, Kind.ODS, Kind.ODP)
