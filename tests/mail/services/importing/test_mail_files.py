"""Finding messages in files of the formats in which people keep mail."""

from __future__ import annotations

import mailbox
import os
from pathlib import Path

import pytest

from mail.services.importing import mail_files
from mail.services.importing.mail_files import FoundMessage, Unreadable, find_messages
from tests.mail.mail_kit import letter

SEPARATOR = b"From anna@customer.example Thu Aug 22 12:36:23 2002\n"


def found(path: Path) -> list[bytes]:
    return [one.raw for one in find_messages(path) if isinstance(one, FoundMessage)]


def unreadable(path: Path) -> dict[str, str]:
    return {
        Path(one.place).name: one.reason
        for one in find_messages(path)
        if isinstance(one, Unreadable)
    }


@pytest.mark.req("M-03")
def test_a_single_message(tmp_path: Path) -> None:
    raw = letter()
    file = tmp_path / "one.eml"
    file.write_bytes(raw)
    assert found(file) == [raw]


@pytest.mark.req("M-03")
def test_a_folder_is_searched_to_the_bottom_in_order(tmp_path: Path) -> None:
    deep = tmp_path / "b" / "c"
    deep.mkdir(parents=True)
    (tmp_path / "a.eml").write_bytes(letter("1"))
    (deep / "x").write_bytes(letter("2"))
    (deep / "y").write_bytes(letter("3"))
    assert [b"Subject: %d" % n in raw for n, raw in enumerate(found(tmp_path), 1)] == [True] * 3


@pytest.mark.req("M-03")
def test_an_mbox_written_by_another_program(tmp_path: Path) -> None:
    file = tmp_path / "mail.mbox"
    box = mailbox.mbox(file)
    for number in range(3):
        box.add(letter(f"Number {number}", "Dear all,\n\nFrom here on it is a body.\n"))
    box.close()
    raws = found(file)
    assert len(raws) == 3
    assert b"\nFrom here on it is a body." in raws[0]
    assert b"Subject: Number 2" in raws[2]


@pytest.mark.req("M-03")
@pytest.mark.parametrize(
    "sentence",
    [
        b"From what I can tell it works.\n",
        b"From 09:30 on we are closed, until 2 January 2027.\n",
        b"From Monday, 4 May at 10:00 to Friday, 8 May 2026\n",
    ],
)
def test_a_sentence_that_begins_with_from_ends_no_message(tmp_path: Path, sentence: bytes) -> None:
    """Some programs do not quote such a line."""
    file = tmp_path / "mail"
    file.write_bytes(SEPARATOR + b"Subject: 1\n\nHello\n\n" + sentence)
    (raw,) = found(file)
    assert raw.endswith(sentence)
    assert unreadable(file) == {}


@pytest.mark.req("M-03")
def test_a_maildir_with_folders(tmp_path: Path) -> None:
    box = mailbox.Maildir(tmp_path / "Maildir", create=True)
    box.add(letter("In new"))
    box.add_folder("Work").add(letter("In a folder"))
    (tmp_path / "Maildir" / "tmp" / "half").write_bytes(letter("Half delivered"))
    (tmp_path / "Maildir" / "dovecot.index").write_bytes(b"\x00\x01")
    raws = found(tmp_path / "Maildir")
    assert len(raws) == 2
    assert unreadable(tmp_path / "Maildir") == {}


@pytest.mark.req("M-03")
def test_what_cannot_be_read_is_named_and_the_rest_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mail_files, "MAX_MESSAGE_BYTES", 1000)
    (tmp_path / "a-text").write_text("Just some notes.\n")
    (tmp_path / "b-empty").write_bytes(b"\n")
    (tmp_path / "c-large").write_bytes(letter("Large", "x\n" * 2000))
    os.mkfifo(tmp_path / "d-pipe")
    (tmp_path / "e-dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "f-good").write_bytes(letter("Good"))
    assert len(found(tmp_path)) == 1
    reasons = unreadable(tmp_path)
    assert set(reasons) == {"a-text", "b-empty", "c-large", "d-pipe", "e-dangling"}
    assert "no mail headers" in reasons["a-text"]
    assert reasons["b-empty"] == "empty"
    assert reasons["e-dangling"] == "No such file or directory"


@pytest.mark.req("M-03")
def test_one_bad_message_in_an_mbox_is_named_by_number(tmp_path: Path) -> None:
    file = tmp_path / "mail"
    file.write_bytes(
        SEPARATOR + letter("1") + b"\n" + SEPARATOR + b"rubbish\n\n" + SEPARATOR + letter("3")
    )
    assert len(found(file)) == 2
    assert list(unreadable(file)) == ["mail (message 2)"]


@pytest.mark.req("M-03")
def test_an_mbox_that_thunderbird_wrote(tmp_path: Path) -> None:
    """Thunderbird's separators have neither sender nor time; older ones have a time."""
    file = tmp_path / "Inbox"
    asked = b"Subject: 1\r\n\r\nWho?\r\n\r\n>From \r\nTo: nobody\r\n\r\nFrom \r\nhere on.\r\n"
    bare, older = b"From \r\n", b"From - Thu Aug 22 12:36:23 2002\r\n"
    message = b"X-Mozilla-Status: 0001\r\nSubject: %d\r\n\r\nHello\r\n\r\n"
    file.write_bytes(bare + asked + b"\r\n" + older + message % 2 + bare + message % 3)
    first, second, third = found(file)
    assert first == asked.replace(b">", b"") + b"\r\n"
    assert (second, third) == (message % 2, message % 3)
    assert unreadable(file) == {}


@pytest.mark.req("M-03")
def test_a_text_that_begins_with_from_alone_is_no_mbox(tmp_path: Path) -> None:
    file = tmp_path / "notes"
    file.write_bytes(b"From \nhere on it is a text.\n")
    assert list(unreadable(file)) == ["notes"]
