"""Importing mail from files into a mailbox."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from hypothesis import given
from hypothesis import strategies as st
from pytest_django import Settings

from mail.models import MailAccount, MailLabel
from mail.services.importing.import_mail import (
    RECEIVED,
    SENT,
    guess_address,
    import_mail,
    labels_for,
)
from mail.services.importing.mail_files import Unreadable
from mail.services.importing.sample_mailbox import import_sample
from tenants.models import SYSTEM_SLUG, Firm
from tenants.scope import all_firms
from tests.mail.mail_kit import ANNA, OWNER, Mailbox, jobs, letter, only, stored

pytestmark = pytest.mark.django_db

LONG_AGO = datetime(2002, 8, 22, 12, 36, tzinfo=UTC)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with three messages, one of them the owner's, and a text file."""
    path = tmp_path / "mail"
    path.mkdir()
    (path / "1.eml").write_bytes(letter("One", at=LONG_AGO))
    (path / "2.eml").write_bytes(letter("Two", sender=f"Me <{OWNER.upper()}>", at=LONG_AGO))
    (path / "3.eml").write_bytes(letter("Three", at=LONG_AGO))
    (path / "notes.txt").write_text("no mail")
    return path


@pytest.mark.req("M-03")
def test_an_import_is_counted_dated_and_sorted(mailbox: Mailbox, folder: Path) -> None:
    problems: list[Unreadable] = []
    report = import_mail(mailbox.account, folder, on_unreadable=problems.append)
    assert (report.imported, report.already_there, report.unreadable) == (3, 0, 1)
    assert [Path(problem.place).name for problem in problems] == ["notes.txt"]
    messages = mailbox.store_all()
    assert {message.internal_date for message in messages} == {LONG_AGO}
    labels = {message.subject: set(message.labels) for message in messages}
    assert labels["One"] == {"INBOX", "UNREAD"}
    assert labels["Two"] == {"SENT"}


@pytest.mark.req("M-03")
def test_mail_from_takeout_keeps_its_labels(mailbox: Mailbox, tmp_path: Path) -> None:
    header = b"X-Gmail-Labels: =?UTF-8?Q?Inbox,Opened,Starred,=22Rechnungen,_B=C3=BCro=22,?=\r\n Work\r\n"
    sent = b"X-Gmail-Labels: Sent,Archived\r\n"
    (tmp_path / "1.eml").write_bytes(header + letter("One", at=LONG_AGO))
    (tmp_path / "2.eml").write_bytes(sent + letter("Two", at=LONG_AGO))
    report = import_mail(mailbox.account, tmp_path, on_unreadable=lambda _: None)
    assert report.imported == 2
    one, two = sorted(mailbox.store_all(), key=lambda message: message.subject)
    names = {row.gmail_label_id: row.name for row in stored(MailLabel)}
    assert {names.get(label, label) for label in one.labels} == {
        "INBOX", "STARRED", "Rechnungen, Büro", "Work",
    }  # fmt: skip
    assert list(two.labels) == ["SENT"]


@pytest.mark.req("M-03")
def test_mail_from_takeout_in_another_language_is_found(mailbox: Mailbox, tmp_path: Path) -> None:
    """Takeout translates Gmail's own labels, so no label of these says inbox or sent mail."""
    german = {"1": "=?UTF-8?Q?Posteingang,Ge=C3=B6ffnet,Rechnungen?=", "2": "Gesendet"}
    for name, labels in german.items():
        sender = OWNER if name == "2" else ANNA
        head = f"X-Gmail-Labels: {labels}\r\n".encode()
        (tmp_path / f"{name}.eml").write_bytes(head + letter(name, sender=sender, at=LONG_AGO))
    import_mail(mailbox.account, tmp_path, on_unreadable=lambda _: None)
    one, two = sorted(mailbox.store_all(), key=lambda message: message.subject)
    names = {row.gmail_label_id: row.name for row in stored(MailLabel)}
    assert {names.get(label, label) for label in one.labels} == {
        *RECEIVED, "Posteingang", "Geöffnet", "Rechnungen",
    }  # fmt: skip
    assert {names.get(label, label) for label in two.labels} == {*SENT, "Gesendet"}


@pytest.mark.req("M-03")
@pytest.mark.parametrize(
    ("headers", "address"),
    [
        (["Delivered-To: Me@x.example\r\nTo: list@x.example, b@x.example", "To: b@x.example"], "me@x.example"),
        (["To: me@x.example, you@x.example", "To: ann@x.example\r\nCc: me@x.example"], "me@x.example"),
        (["X-Gmail-Labels: Sent\r\nFrom: Me <me@x.example>\r\nTo: ann@x.example"], "me@x.example"),
        (["Subject: to nobody"], None),
    ],
)  # fmt: skip
def test_the_address_is_guessed_from_the_mail(
    tmp_path: Path, headers: list[str], address: str | None
) -> None:
    for number, fields in enumerate(headers):
        (tmp_path / f"{number}.eml").write_text(f"{fields}\r\n\r\nHello")
    assert guess_address(tmp_path) == address


@pytest.mark.req("M-03")
@given(value=st.binary(max_size=300))
def test_any_sender_line_can_be_sorted(value: bytes) -> None:
    assert labels_for(b"From: " + value + b"\n\nHello", frozenset({OWNER})) in (RECEIVED, SENT)


@pytest.mark.parametrize(("result", "labels"), [("fail", RECEIVED), ("pass", SENT)])
def test_who_forged_the_owners_address_sent_nothing(result: str, labels: tuple[str, ...]) -> None:
    results = f"mx.google.com; dmarc={result} header.from=acme.example"
    raw = letter(sender=OWNER, Authentication_Results=results)
    assert labels_for(raw, frozenset({OWNER})) == labels


@pytest.mark.req("M-03")
def test_importing_again_changes_nothing(mailbox: Mailbox, folder: Path) -> None:
    for _ in range(2):
        report = import_mail(mailbox.account, folder, on_unreadable=lambda _: None)
    assert (report.imported, report.already_there) == (0, 3)
    assert len(mailbox.store_all()) == 3


@pytest.mark.req("M-03")
def test_an_import_asks_for_one_backfill_without_a_window(mailbox: Mailbox, folder: Path) -> None:
    for _ in range(2):
        import_mail(mailbox.account, folder, on_unreadable=lambda _: None)
    (job,) = jobs()
    assert job.job_type == "backfill.gmail"
    assert job.payload["query"] is None


@pytest.mark.req("M-03")
def test_the_command_makes_the_account_and_counts(
    mailbox: Mailbox, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(folder), "--account", "New@Acme.example", "--firm", "acme"]
    call_command("import_mail", *arguments, "--json")
    output = capsys.readouterr()
    assert json.loads(output.out) == {
        "account": "new@acme.example",
        "firm": "acme",
        "imported": 3,
        "already_there": 0,
        "unreadable": 1,
    }
    assert "notes.txt" in output.err
    only(stored(MailAccount), address="new@acme.example")


@pytest.mark.req("M-03")
@pytest.mark.parametrize(
    ("path", "account", "slug", "code"),
    [
        ("/no/such/file", OWNER, "acme", 3),
        (".", OWNER, "no-such-firm", 3),
        (".", "no address", "acme", 1),
        (".", "two@x.example, three@x.example", "acme", 1),
    ],
)
def test_the_command_refuses_what_it_cannot_find(
    mailbox: Mailbox, path: str, account: str, slug: str, code: int
) -> None:
    with pytest.raises(CommandError) as caught:
        call_command("import_mail", path, "--account", account, "--firm", slug)
    assert caught.value.returncode == code
    assert jobs() == []


@pytest.mark.req("M-03")
def test_the_system_firm_gets_no_mailbox(mailbox: Mailbox, folder: Path) -> None:
    Firm.objects.system()
    with pytest.raises(CommandError, match="The system firm cannot have a mailbox") as caught:
        call_command("import_mail", str(folder), "--account", OWNER, "--firm", SYSTEM_SLUG)
    assert caught.value.returncode == 1
    with all_firms("test"):
        assert not MailAccount.objects.exclude(firm=mailbox.firm).exists()
    assert jobs() == []


@pytest.mark.req("M-03")
@pytest.mark.parametrize(
    ("command", "named"),
    [
        (["import_mail", "", "--account", OWNER, "--firm", "acme"], "path"),
        (["demo", "--mail", ""], "--mail"),
        (["firm_import", ""], "path"),
    ],
)
def test_an_empty_path_is_not_the_folder_where_one_is(
    mailbox: Mailbox,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: list[str],
    named: str,
) -> None:
    """A shell passes an empty path if a variable is not set."""
    monkeypatch.chdir(folder)
    with pytest.raises(CommandError, match=f"argument {named}: is empty"):
        call_command(*command)
    assert jobs() == []


@pytest.mark.req("M-03")
def test_nothing_is_imported_where_mailboxes_are_in_googles_gmail(
    mailbox: Mailbox, folder: Path, settings: Settings
) -> None:
    settings.GMAIL_BACKEND = "google"
    with pytest.raises(CommandError, match="GMAIL_BACKEND is google") as caught:
        call_command("import_mail", str(folder), "--account", "new@acme.example", "--firm", "acme")
    assert caught.value.returncode == 1
    assert [account.address for account in stored(MailAccount)] == [OWNER]


@pytest.mark.req("M-03", "E-01")
def test_the_sample_ends_now_and_is_imported_once(mailbox: Mailbox) -> None:
    first = import_sample(mailbox.account)
    before = {row.gmail_message_id: row.internal_date for row in mailbox.store_all()}
    second = import_sample(mailbox.account)
    assert first.imported == len(before) >= 55
    assert (second.imported, second.already_there) == (0, first.imported)
    assert {row.gmail_message_id: row.internal_date for row in mailbox.store_all()} == before
    newest = max(before.values())
    assert abs((datetime.now(UTC) - newest).total_seconds()) < 300
    assert (newest - min(before.values())).days < 30
