"""The sample has every shape of mail that a mail product meets, recognised by its properties."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable
from email.errors import CloseBoundaryNotFoundDefect
from pathlib import PurePosixPath, PureWindowsPath

import pytest

from tests.mail.sample.samples import OWNER, Sample, all_samples, charset_of, content, inbox

Predicate = Callable[[Sample], bool]

FUNCTION_WORDS = {
    "en": {"the", "and", "you", "for", "is"},
    "cs": {"prosím", "dobrý", "pro", "nebo", "děkuji", "děkujeme", "zasíláme"},
    "de": {"und", "wir", "bitte", "die", "nicht"},
    "fr": {"nous", "vous", "les", "votre", "une"},
    "es": {"por", "para", "una", "los", "gracias"},
}
SCRIPTS = {"ja": re.compile(r"[\u3040-\u30ff]{5}"), "ru": re.compile(r"[\u0400-\u04ff]{5}")}


def has_part(content_type: str) -> Predicate:
    return lambda sample: any(
        part.get_content_type() == content_type for part in sample.message.walk()
    )


def has_header(name: str, value: str = "") -> Predicate:
    def matches(sample: Sample) -> bool:
        found = sample.header(name)
        return found is not None and value.lower() in found.lower()

    return matches


def lacks_header(name: str) -> Predicate:
    return lambda sample: sample.header(name) is None


def has_charset(charset: str) -> Predicate:
    return lambda sample: any(
        charset_of(part) == charset
        for part in sample.parts()
        if part.get_content_maintype() == "text"
    )


def has_encoding(encoding: str) -> Predicate:
    return lambda sample: any(
        part.get("Content-Transfer-Encoding", "") == encoding for part in sample.message.walk()
    )


def has_attachment(content_type: str, magic: bytes) -> Predicate:
    return lambda sample: any(
        part.get_content_type() == content_type and content(part).startswith(magic)
        for part in sample.parts()
        if part.get_filename()
    )


def has_text(pattern: str, subtype: str = "") -> Predicate:
    return lambda sample: any(
        re.search(pattern, text, re.IGNORECASE | re.DOTALL) for text in sample.texts(subtype)
    )


def all_of(*predicates: Predicate) -> Predicate:
    return lambda sample: all(predicate(sample) for predicate in predicates)


def is_html_only(sample: Sample) -> bool:
    return has_part("text/html")(sample) and not has_part("text/plain")(sample)


def shows_inline_image(sample: Sample) -> bool:
    ids = [part["Content-ID"].strip("<>") for part in sample.parts() if part["Content-ID"]]
    return has_part("multipart/related")(sample) and any(
        f"cid:{id_}" in html for id_ in ids for html in sample.texts("html")
    )


def has_rfc2231_name_with_diacritics(sample: Sample) -> bool:
    names = [part.get_filename() or "" for part in sample.parts()]
    return b"filename*" in sample.raw and any(not name.isascii() for name in names)


def has_continued_rfc2231_name(sample: Sample) -> bool:
    return b"filename*0*=" in sample.raw and b"filename*1*=" in sample.raw


def declares_wrong_charset(sample: Sample) -> bool:
    for part in sample.parts():
        if part.get_content_maintype() == "text":
            try:
                content(part).decode(charset_of(part))
            except UnicodeDecodeError:
                return True
    return False


def is_full_of_nuls_when_read_as_ascii(sample: Sample) -> bool:
    return any(
        b"\0" in content(part) for part in sample.parts() if part.get_content_maintype() == "text"
    )


def has_raw_8bit_header(sample: Sample) -> bool:
    return not sample.head.isascii()


def injects_header_lines(sample: Sample) -> bool:
    return re.search(r"[\r\n]\w+:", sample.decoded_header("Subject")) is not None


def leaves_its_folder(name: str) -> bool:
    return ".." in PurePosixPath(name).parts or ".." in PureWindowsPath(name).parts


def has_traversing_file_name(sample: Sample) -> bool:
    return any(leaves_its_folder(part.get_filename() or "") for part in sample.parts())


def has_traversing_zip_member(sample: Sample) -> bool:
    zips = [content(p) for p in sample.parts() if p.get_content_type() == "application/zip"]
    return any(
        leaves_its_folder(name)
        for data in zips
        for name in zipfile.ZipFile(io.BytesIO(data)).namelist()
    )


def is_cut_off(sample: Sample) -> bool:
    defects = [defect for part in sample.message.walk() for defect in part.defects]
    return any(isinstance(defect, CloseBoundaryNotFoundDefect) for defect in defects)


def is_contact_form(sample: Sample) -> bool:
    """The mail is from the own site, and its Reply-To is a visitor from elsewhere."""
    own_domain = OWNER.partition("@")[2]
    reply_to = sample.header("Reply-To") or own_domain
    return own_domain in (sample.header("From") or "") and own_domain not in reply_to


def is_only_a_copy(sample: Sample) -> bool:
    return OWNER in (sample.header("Cc") or "") and OWNER not in (sample.header("To") or "")


def written_in(language: str) -> Predicate:
    def matches(sample: Sample) -> bool:
        text = " ".join(sample.texts("plain")).lower()
        if language in SCRIPTS:
            return SCRIPTS[language].search(text) is not None
        return len(FUNCTION_WORDS[language] & set(re.findall(r"\w+", text))) >= 3

    return matches


BULK: dict[str, Predicate] = {
    "newsletter": all_of(has_header("List-Id"), has_header("List-Unsubscribe", "https:")),
    "one-click unsubscribe": has_header("List-Unsubscribe-Post", "One-Click"),
    "feedback id": has_header("Feedback-ID"),
    "notification": has_header("Auto-Submitted", "auto-generated"),
    "precedence bulk": has_header("Precedence", "bulk"),
    "mailing list": has_header("Precedence", "list"),
    "digest": all_of(has_part("multipart/digest"), has_header("List-Id")),
    "out of office": all_of(
        has_header("Auto-Submitted", "auto-replied"),
        has_header("X-Autoreply"),
        has_header("In-Reply-To"),
    ),
    "bounce": all_of(
        has_part("multipart/report"),
        has_part("message/delivery-status"),
        has_header("Return-Path", "<>"),
    ),
    "contact form": is_contact_form,
    "copy": is_only_a_copy,
}

SHAPES: dict[str, Predicate] = {
    "calendar request": all_of(has_part("text/calendar"), has_text("METHOD:REQUEST", "calendar")),
    "calendar cancellation": has_text("METHOD:CANCEL", "calendar"),
    "html only": is_html_only,
    "alternative": all_of(has_part("multipart/alternative"), has_part("text/html")),
    "inline image": shows_inline_image,
    "forwarded message": all_of(has_part("message/rfc822"), has_header("Subject", "Fwd:")),
    "signed": all_of(has_part("multipart/signed"), has_part("application/pkcs7-signature")),
    "encrypted": all_of(has_part("multipart/encrypted"), has_part("application/pgp-encrypted")),
    "pdf": has_attachment("application/pdf", b"%PDF-"),
    "png": has_attachment("image/png", b"\x89PNG"),
    "csv": has_attachment("text/csv", b"p"),
    "zip": has_attachment("application/zip", b"PK\x03\x04"),
    "tnef": has_attachment("application/ms-tnef", b"\x78\x9f\x3e\x22"),
    "file name with diacritics": has_rfc2231_name_with_diacritics,
    "continued file name": has_continued_rfc2231_name,
    "quoted-printable": has_encoding("quoted-printable"),
    "base64": has_encoding("base64"),
    "8bit": has_encoding("8bit"),
    "format=flowed": has_header("Content-Type", "format=flowed"),
    "crlf": lambda sample: sample.raw.count(b"\r\n") == sample.raw.count(b"\n"),
    "lf": lambda sample: b"\r" not in sample.raw,
}

FAULTS: dict[str, Predicate] = {
    "wrong charset": declares_wrong_charset,
    "utf-16 read as ascii": is_full_of_nuls_when_read_as_ascii,
    "8-bit header": has_raw_8bit_header,
    "very long subject": lambda sample: len(sample.header("Subject") or "") > 800,
    "no subject": lacks_header("Subject"),
    "no date": lacks_header("Date"),
    "no message id": lacks_header("Message-ID"),
    "no from": lacks_header("From"),
    "cut off": is_cut_off,
    "huge header": lambda sample: len(sample.head) > 30_000,
    "a crowd of recipients": lambda sample: (sample.header("To") or "").count("@") > 150,
}

HOSTILE: dict[str, Predicate] = {
    "visible injection": has_text("ignore all previous instructions", "plain"),
    "injection not displayed": has_text(r'style="display:none">[^<]*assistant', "html"),
    "injection in white on white": has_text(r"color:#ffffff[^>]*>[^<]*assistant", "html"),
    "injection in a comment": has_text(r"<!--[^>]*assistant", "html"),
    "script": has_text(r"<script>", "html"),
    "event handler": has_text(r"<img[^>]*\sonerror=", "html"),
    "javascript link": has_text(r'href="javascript:', "html"),
    "tracking pixel": has_text(r'<img[^>]*https?:[^>]*width="1"', "html"),
    "header lines in a subject": injects_header_lines,
    "file name leaving its folder": has_traversing_file_name,
    "zip member leaving its folder": has_traversing_zip_member,
}

CHARSETS = [
    "us-ascii",
    "utf-8",
    "utf-16",
    "iso-8859-1",
    "iso-8859-2",
    "windows-1250",
    "windows-1252",
    "koi8-r",
    "iso-2022-jp",
]


@pytest.mark.req("M-06")
@pytest.mark.parametrize("oddity", [*BULK, *SHAPES, *FAULTS])
def test_the_inbox_shows_it(oddity: str) -> None:
    shown = {**BULK, **SHAPES, **FAULTS}[oddity]
    assert any(shown(sample) for sample in inbox())


@pytest.mark.req("M-06")
@pytest.mark.parametrize("charset", CHARSETS)
def test_the_inbox_uses_the_charset(charset: str) -> None:
    assert any(has_charset(charset)(sample) for sample in inbox())


@pytest.mark.req("M-13")
@pytest.mark.parametrize("attack", HOSTILE)
def test_the_inbox_holds_the_attack(attack: str) -> None:
    assert any(HOSTILE[attack](sample) for sample in inbox())


@pytest.mark.req("M-09")
@pytest.mark.parametrize("language", [*FUNCTION_WORDS, *SCRIPTS])
def test_people_write_in_the_language(language: str) -> None:
    assert any(written_in(language)(sample) for sample in inbox())


@pytest.mark.req("M-06")
def test_two_different_messages_share_a_message_id() -> None:
    texts: dict[str, set[bytes]] = {}
    for sample in inbox():
        if sample.message_id:
            texts.setdefault(sample.message_id, set()).add(sample.raw)
    assert [len(raws) for raws in texts.values() if len(raws) > 1] == [2]


@pytest.mark.req("M-03")
def test_the_owner_writes_in_several_languages() -> None:
    sent = [sample for sample in all_samples() if not sample.received_mail]
    assert all(OWNER in (sample.header("From") or "") for sample in sent)
    for language in ("en", "cs", "de", "es"):
        assert any(written_in(language)(sample) for sample in sent), language
