"""Files are read in a separate process: the text of good ones, the reason for each hostile one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mail.documents import extract
from mail.documents.extract import Limits, extract_text
from mail.documents.kinds import Kind, Unread, kind_of
from mail.documents.readers import MAX_PAGES, MAX_UNPACKED
from tests.mail.document_kit import (
    WORD,
    cyclic_pdf,
    docx,
    docx_with,
    encrypted_pdf,
    open_document,
    pdf,
    pptx,
    xlsx,
)

pytestmark = pytest.mark.req("U-06")
ROOT = Path(__file__).resolve().parents[3]
LIMITS = Limits(memory_mb=512, seconds=30)

READABLE: dict[str, tuple[Kind, Callable[[], bytes]]] = {
    "pdf": (Kind.PDF, pdf),
    "pdf with an empty password": (Kind.PDF, lambda: encrypted_pdf("")),
    "docx": (Kind.DOCX, docx),
    "xlsx": (Kind.XLSX, xlsx),
    "pptx": (Kind.PPTX, pptx),
    "odt": (Kind.ODT, open_document),
    "ods": (Kind.ODS, lambda: open_document("spreadsheet")),
    "odp": (Kind.ODP, lambda: open_document("presentation")),
    "html": (Kind.HTML, f"<html><script>x</script><p>{WORD}".encode),
    "html named text": (Kind.TEXT, f"<!DOCTYPE html><b>{WORD}".encode),
    "utf-16": (Kind.TEXT, lambda: WORD.encode("utf-16")),
}
# In a Word document: a paragraph of few bytes takes much memory.
EMPTY_PARAGRAPHS = 20 * 2**20
HOSTILE: dict[str, tuple[Kind, Callable[[], bytes], Unread]] = {
    "program named pdf": (Kind.PDF, lambda: b"MZ" + bytes(500), Unread.WRONG_TYPE),
    "docx named pdf": (Kind.PDF, docx, Unread.WRONG_TYPE),
    "zip named docx": (Kind.DOCX, lambda: b"PK\x05\x06" + bytes(18), Unread.WRONG_TYPE),
    "binary named text": (Kind.TEXT, lambda: bytes(range(256)), Unread.WRONG_TYPE),
    "old or encrypted office": (
        Kind.DOCX,
        lambda: b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"),
        Unread.ENCRYPTED,
    ),
    "encrypted pdf": (Kind.PDF, lambda: encrypted_pdf("secret"), Unread.ENCRYPTED),
    "macros": (Kind.DOCX, lambda: docx_with(vbaProject=b"Sub Auto"), Unread.MACROS),
    "odt named ods": (Kind.ODS, open_document, Unread.WRONG_TYPE),
    "zip with a type of its own": (Kind.ODT, lambda: open_document("chart"), Unread.WRONG_TYPE),
    "encrypted odt": (
        Kind.ODT,
        lambda: open_document(**{"META-INF__manifest.xml": b"<manifest:encryption-data/>"}),
        Unread.ENCRYPTED,
    ),
    "odt encrypted as a whole": (
        Kind.ODT,
        lambda: open_document(**{"encrypted-package": b"?"}),
        Unread.ENCRYPTED,
    ),
    "macros of an odt": (
        Kind.ODT,
        lambda: open_document(**{"Basic__Standard__Module1.xml": b"Sub Auto"}),
        Unread.MACROS,
    ),
    "entities of an odt": (
        Kind.ODT,
        lambda: open_document(body="<text:p>&canary;</text:p>"),
        Unread.DAMAGED,
    ),
    "deep odt": (
        Kind.ODT,
        lambda: open_document(
            body="<text:p>" + "<text:span>" * 5_000 + "</text:span>" * 5_000 + "</text:p>"
        ),
        Unread.DAMAGED,
    ),
    "truncated pdf": (Kind.PDF, lambda: pdf()[:150], Unread.DAMAGED),
    "truncated docx": (Kind.DOCX, lambda: docx()[:2000], Unread.DAMAGED),
    "pages in a circle": (Kind.PDF, cyclic_pdf, Unread.DAMAGED),
    "zip bomb": (
        Kind.DOCX,
        lambda: docx_with((b"<w:body>", b"<w:body>" + bytes(MAX_UNPACKED))),
        Unread.UNPACKS_TOO_LARGE,
    ),
    "zip bomb in an odt": (
        Kind.ODT,
        lambda: open_document(**{"Pictures__1.png": bytes(MAX_UNPACKED)}),
        Unread.UNPACKS_TOO_LARGE,
    ),
    "bomb of elements in an odt": (
        Kind.ODT,
        lambda: open_document(body=f"<text:p>{'<text:s/>' * (EMPTY_PARAGRAPHS // 2)}</text:p>"),
        Unread.MEMORY,
    ),
    "bomb in a pdf": (
        Kind.PDF,
        lambda: pdf(b"BT (" + b"a" * (100 * 2**20) + b") Tj ET"),
        Unread.UNPACKS_TOO_LARGE,
    ),
    "bomb of elements": (
        Kind.DOCX,
        lambda: docx_with((b"<w:body>", b"<w:body>" + b"<w:p/>" * EMPTY_PARAGRAPHS)),
        Unread.MEMORY,
    ),
}


@pytest.mark.parametrize("name", READABLE)
def test_what_a_file_says_is_found(name: str) -> None:
    kind, make = READABLE[name]
    extraction = extract_text(make(), kind, LIMITS)
    assert WORD in extraction.text
    assert extraction.reason == ""


@pytest.mark.parametrize("name", [name for name in HOSTILE if "bomb" not in name])
def test_a_hostile_file_ends_with_a_name(name: str) -> None:
    kind, make, reason = HOSTILE[name]
    extraction = extract_text(make(), kind, LIMITS)
    assert (extraction.reason, extraction.text) == (reason.value, "")


def test_an_open_document_is_read_whole_and_without_what_was_deleted() -> None:
    deleted = "<text:tracked-changes><text:p>secret</text:p></text:tracked-changes>"
    body = f"{deleted}<text:h>Title</text:h><text:p>a<text:s/>b<text:tab/>c<text:p>d</text:p>e</text:p>"
    footer = (
        '<x xmlns:text="urn:oasis:names:tc:opendocument:xmlns:text:1.0"><text:p>Foot</text:p></x>'
    )
    data = open_document(body=body, **{"styles.xml": footer.encode()})
    assert extract_text(data, Kind.ODT, LIMITS).text.split() == [
        "Title",
        "d",
        "a",
        "b",
        "ce",
        "Foot",
    ]


def test_of_too_many_pages_the_first_are_read() -> None:
    extraction = extract_text(pdf(pages=10_000), Kind.PDF, LIMITS)
    assert extraction.reason == Unread.CUT
    assert extraction.text.count(WORD) == MAX_PAGES


def test_a_file_that_takes_too_long_is_given_up() -> None:
    shows = pdf(b"BT /F1 12 Tf " + b"(a) Tj " * 1_000_000 + b"ET")
    extraction = extract_text(shows, Kind.PDF, Limits(memory_mb=512, seconds=1))
    assert (extraction.reason, extraction.text) == (Unread.TIME, "")
    assert not extraction.interrupted


def test_a_process_that_hangs_is_ended_by_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    hangs = "import time, os, sys; sys.stdout.write('x'); sys.stdout.flush(); time.sleep(600)"
    monkeypatch.setattr(extract, "START", hangs)
    extraction = extract_text(pdf(), Kind.PDF, Limits(memory_mb=512, seconds=1))
    assert (extraction.reason, extraction.interrupted) == (Unread.TIME, True)


@pytest.mark.parametrize(
    ("script", "reason", "interrupted"),
    [
        ("import os; os.abort()", Unread.DIED, False),
        ("print('no answer')", Unread.DIED, False),
        ("import sys; sys.stdout.write('x' * 2**26)", Unread.DIED, False),
        ("import os; os.kill(os.getpid(), 9)", Unread.MEMORY, True),
        ("import os; os.kill(os.getpid(), 15)", Unread.DIED, True),
    ],
)
def test_an_end_without_an_answer_has_a_name(
    monkeypatch: pytest.MonkeyPatch, script: str, reason: Unread, *, interrupted: bool
) -> None:
    monkeypatch.setattr(extract, "START", script)
    extraction = extract_text(pdf(), Kind.PDF, LIMITS)
    assert (extraction.reason, extraction.interrupted) == (reason, interrupted)


def test_the_process_has_limits_and_nothing_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SECRET_KEY", "canary")
    looks = (
        "import sys; sys.path[:] = sys.argv[4:]; import json, os, resource\n"
        "from mail.documents import child\n"
        "child._limit(int(sys.argv[2]), int(sys.argv[3]))\n"
        "kinds = [resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_FSIZE]\n"
        "heavy = [one for one in ('django', 'lxml', 'pypdf', 'openpyxl') if one in sys.modules]\n"
        "told = [resource.getrlimit(one)[0] for one in kinds] + [sorted(os.environ), heavy]\n"
        "print(json.dumps({'text': json.dumps(told)}))"
    )
    monkeypatch.setattr(extract, "START", looks)
    told = extract_text(pdf(), Kind.PDF, LIMITS).text
    assert told.startswith(f"[{512 * 2**20}, 30, 0, [")
    assert "SECRET_KEY" not in told
    assert told.endswith(", []]")


@pytest.mark.parametrize("name", [name for name in HOSTILE if "bomb" in name])
def test_a_bomb_takes_no_more_memory_than_it_may(name: str, tmp_path: Path) -> None:
    """A small process starts the reader, whose peak memory begins with that of its parent."""
    kind, make, reason = HOSTILE[name]
    (tmp_path / "file").write_bytes(make())
    worker = (
        "import sys; from pathlib import Path; from mail.documents.extract import *\n"
        "from mail.documents.kinds import Kind\n"
        "found = extract_text(Path(sys.argv[1]).read_bytes(), Kind(sys.argv[2]), Limits(512, 30))\n"
        "heavy = [one for one in ('lxml', 'pypdf', 'openpyxl', 'docx') if one in sys.modules]\n"
        "print(found.reason, found.peak_memory_mb, *heavy)"
    )
    told = subprocess.run(
        [sys.executable, "-c", worker, str(tmp_path / "file"), kind.value],
        capture_output=True, check=True, text=True, cwd=ROOT,
    ).stdout.split()  # fmt: skip
    assert told[0] == reason
    assert float(told[1]) <= LIMITS.memory_mb
    assert told[2:] == []


def test_entities_of_the_outside_are_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("canary")
    declared = f'<!DOCTYPE x [<!ENTITY a SYSTEM "file://{secret}">]><w:document'.encode()
    data = docx_with((b"<w:document", declared), (WORD.encode(), b"kohl&a;rabi"))
    told = extract_text(data, Kind.DOCX, LIMITS)
    assert (told.text, told.reason) == ("kohl", "")


NAMES = {
    ("Report.PDF", "application/octet-stream"): Kind.PDF,
    ("report", "application/pdf"): Kind.PDF,
    ("prices.xlsx", ""): Kind.XLSX,
    ("Letter.ODT", "application/octet-stream"): Kind.ODT,
    ("plan", "application/vnd.oasis.opendocument.spreadsheet"): Kind.ODS,
    ("talk.odp", ""): Kind.ODP,
    ("setup.exe", "application/octet-stream"): None,
    ("photo.jpg", "image/jpeg"): None,
    ("macros.docm", "application/octet-stream"): None,
}


def test_names_and_types_say_what_is_read() -> None:
    assert {key: kind_of(*key) for key in NAMES} == NAMES
