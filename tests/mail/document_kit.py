"""Files as people attach them, and as attackers do: all made here."""

from __future__ import annotations

import io
import socketserver
import struct
import threading
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage

from tests.mail.mail_kit import ANNA, OWNER

# The word that the text of every readable file here contains.
WORD = "kohlrabi"
CLAMD_LIMIT = 100_000


def with_attachments(*files: tuple[str, bytes], text: str = "See the files.") -> bytes:
    """Return a message with these files attached, each declared as application/octet-stream."""
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = ANNA, OWNER, "Files"
    mail.set_content(text)
    for name, content in files:
        mail.add_attachment(content, maintype="application", subtype="octet-stream", filename=name)
    return mail.as_bytes()


def pdf(content: bytes | None = None, *, pages: int = 1) -> bytes:
    """Return a PDF whose pages all show the same content stream."""
    shown = content if content is not None else f"BT /F1 12 Tf ({WORD}) Tj ET".encode()
    packed = zlib.compress(shown, 9)
    kids = b" ".join([b"5 0 R"] * pages)
    return _pdf_of(
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [%s] /Count %d >>" % (kids, pages),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(packed), packed),
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 100 100] /Contents 4 0 R"
        b" /Resources << /Font << /F1 3 0 R >> >> >>",
    )


def cyclic_pdf() -> bytes:
    """Return a PDF whose tree of pages contains itself."""
    return _pdf_of(
        b"<< /Type /Catalog /Pages 2 0 R >>", b"<< /Type /Pages /Kids [2 0 R] /Count 1 >>"
    )


def encrypted_pdf(password: str) -> bytes:
    """Return a PDF that opens with this password alone."""
    from pypdf import PdfWriter

    writer = PdfWriter(io.BytesIO(pdf()))
    writer.encrypt(password, "owner", algorithm="AES-256")
    file = io.BytesIO()
    writer.write(file)
    return file.getvalue()


def docx(text: str = WORD) -> bytes:
    """Return a document of Word."""
    from docx import Document

    document, file = Document(), io.BytesIO()
    document.add_table(1, 1).cell(0, 0).text = text
    document.save(file)
    return file.getvalue()


def xlsx() -> bytes:
    """Return a workbook of Excel."""
    from openpyxl import Workbook

    workbook, file = Workbook(write_only=True), io.BytesIO()
    sheet = workbook.create_sheet("Prices")
    sheet.append([WORD, 12.5])
    workbook.save(file)
    return file.getvalue()


def pptx() -> bytes:
    """Return a presentation of PowerPoint."""
    from pptx import Presentation

    presentation, file = Presentation(), io.BytesIO()
    slide = presentation.slides.add_slide(presentation.slide_layouts[0])
    slide.shapes.title.text = WORD
    presentation.save(file)
    return file.getvalue()


def open_document(kind: str = "text", body: str = "", **more: bytes) -> bytes:
    """Return an OpenDocument file; `body` is XML of prefix `text`, `more` are parts by name."""
    said = (
        body
        or f"<text:p>A<text:tab/>{WORD}<text:span> and <text:p>more</text:p></text:span></text:p>"
    )
    content = (
        '<office:document-content xmlns:office="urn:oasis:names:tc:opendocument:xmlns:office:1.0"'
        ' xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0">'
        f"<office:body>{said}</office:body></office:document-content>"
    )
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        declared = f"application/vnd.oasis.opendocument.{kind}"
        archive.writestr("mimetype", declared, zipfile.ZIP_STORED)
        archive.writestr("content.xml", content)
        for name, data in more.items():
            archive.writestr(name.replace("__", "/"), data)
    return out.getvalue()


def docx_with(*changes: tuple[bytes, bytes], **more: bytes) -> bytes:
    """Return a Word document with bytes of its main part replaced, and more parts by name."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(docx())) as known, zipfile.ZipFile(out, "w", 8) as changed:
        for entry in known.infolist():
            data = known.read(entry)
            if entry.filename == "word/document.xml":
                for old, new in changes:
                    data = data.replace(old, new, 1)
            changed.writestr(entry.filename, data)
        for name, data in more.items():
            changed.writestr(f"word/{name}.bin", data)
    return out.getvalue()


def _pdf_of(*objects: bytes) -> bytes:
    out, offsets = b"%PDF-1.7\n", []
    for number, one in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, one)
    table = b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    count = len(objects) + 1
    return out + (
        b"xref\n0 %d\n0000000000 65535 f \n%strailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF"
        % (count, table, count, len(out))
    )


def eicar() -> bytes:
    """Return the test file that scanners report, split here so that they spare this module."""
    return b"X5O!P%@AP[4\\PZX54(P^)7CC)7}$" + b"EICAR-STANDARD-" + b"ANTIVIRUS-TEST-FILE!$H+H*"


@dataclass
class Clamd:
    """A server that speaks INSTREAM; `url` is its address, `seen` the streams that it got."""

    url: str
    seen: list[bytes] = field(default_factory=list)


@contextmanager
def clamd() -> Iterator[Clamd]:
    """Serve the protocol on loopback: report the test file as infected, refuse large streams."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            assert self.rfile.read(10) == b"zINSTREAM\0"
            data = b""
            while size := struct.unpack("!L", self.rfile.read(4))[0]:
                data += self.rfile.read(size)
                if len(data) > CLAMD_LIMIT:
                    self.wfile.write(b"INSTREAM size limit exceeded. ERROR\0")
                    return
            server_of.seen.append(data)
            infected = b"EICAR-STANDARD-" in data
            self.wfile.write(
                b"stream: Eicar-Test-Signature FOUND\0" if infected else b"stream: OK\0"
            )

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server_of = Clamd(f"tcp://127.0.0.1:{server.server_address[1]}")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield server_of
        finally:
            server.shutdown()
            thread.join()
