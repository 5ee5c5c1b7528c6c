"""Mail that names an erased person is not stored, however it is written; a namesake's is."""

from __future__ import annotations

from email.message import EmailMessage

import pytest

from jobs.testing import drain
from mail.models import Direction, Message, RequestKind
from mail.services.exports.subjects import mentioning
from mail.services.queueing import request_sync
from tenants.scope import firm_scope
from tests.factories.mail import MessageFactory
from tests.mail.mail_kit import OWNER, Mailbox, letter, only, stored
from tests.mail.services.exports.export_kit import ANNA_ADDRESS, done

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("U-05")]

BOB = "Bob <bob@other.example>"
NAMING = [
    f"Write to {text}, please."
    for text in (
        ANNA_ADDRESS, "Anna@Customer.Example", f"*{ANNA_ADDRESS}*", f"“{ANNA_ADDRESS}”",
        f"https://x.example/{ANNA_ADDRESS}", f"{{{ANNA_ADDRESS}}}", f"!{ANNA_ADDRESS}", f"#{ANNA_ADDRESS}",
        f"...{ANNA_ADDRESS}", f"-{ANNA_ADDRESS}-", f"~{ANNA_ADDRESS}", f"•{ANNA_ADDRESS}",
        f"https://x.example/?a=1&u={ANNA_ADDRESS}&b=1", f"a&{ANNA_ADDRESS}", f"{ANNA_ADDRESS}...",
        f"'{ANNA_ADDRESS}'", f"href='mailto:{ANNA_ADDRESS}'",
        f"連絡先は{ANNA_ADDRESS}です", f"宛先\uff1a{ANNA_ADDRESS}。", f"*花子{ANNA_ADDRESS}", f"ที่{ANNA_ADDRESS}ครับ",
        *(f"https://x.example/?u={ANNA_ADDRESS.replace('@', at)}&b=1" for at in ("%40", "&#64;", "&#x40;", "&#X40;", "&commat;")),
    )
]  # fmt: skip
NAMESAKES = [
    f"Write to {text}, please."
    for text in (f"jo{ANNA_ADDRESS}", f"jo.{ANNA_ADDRESS}", f"jo-{ANNA_ADDRESS}", f"d'{ANNA_ADDRESS}", f"{ANNA_ADDRESS}.cz", f"{ANNA_ADDRESS}-x", f"{ANNA_ADDRESS}é", f"é{ANNA_ADDRESS}",
        f"https://x.example/?u=jo{ANNA_ADDRESS.replace('@', '%40')}", f"{ANNA_ADDRESS.replace('@', '&#64;')}.cz")
]  # fmt: skip


def synced(mailbox: Mailbox, *letters: bytes) -> set[str]:
    """Let the mail arrive and be synced; return the subjects of what is stored."""
    for raw in letters:
        mailbox.receive(raw)
    with firm_scope(mailbox.firm):
        request_sync(mailbox.account, force_full=True)
    drain()
    return {message.subject for message in mailbox.messages()}


def with_file_named(name: str) -> bytes:
    mail = EmailMessage()
    mail["From"], mail["To"], mail["Subject"] = BOB, OWNER, "A file"
    mail.set_content("Enclosed.")
    mail.add_attachment(b"x", maintype="application", subtype="pdf", filename=name)
    return mail.as_bytes()


def test_a_text_names_an_erased_person_however_it_is_set(mailbox: Mailbox) -> None:
    done(mailbox.firm, RequestKind.ERASE_SUBJECT, ANNA_ADDRESS)
    naming = [letter(f"Named {n}", text, sender=BOB) for n, text in enumerate(NAMING)]
    others = [letter(f"Other {n}", text, sender=BOB) for n, text in enumerate(NAMESAKES)]
    assert synced(mailbox, *naming, *others) == {f"Other {n}" for n in range(len(NAMESAKES))}


def test_an_erasure_finds_what_a_sync_leaves_out(mailbox: Mailbox) -> None:
    with firm_scope(mailbox.firm):
        for text in (*NAMING, *NAMESAKES):
            MessageFactory(firm=mailbox.firm, account=mailbox.account, text=text)
        found = mentioning(Message.objects.filter(firm=mailbox.firm), ANNA_ADDRESS)
        assert sorted(found.values_list("text", flat=True)) == sorted(NAMING)


def test_an_address_that_only_a_link_of_an_html_mail_holds_is_found_and_replaced(
    mailbox: Mailbox,
) -> None:
    coded = ANNA_ADDRESS.replace("@", "%40")
    with firm_scope(mailbox.firm):
        html = f'<a href="https://x.example/?u={coded}">Leave</a>'
        MessageFactory(firm=mailbox.firm, account=mailbox.account, html=html)
        Direction.objects.create(
            scope="sender", scope_ref="bob@x.example", text=f"See https://x.example/?u={coded}"
        )
    done(mailbox.firm, RequestKind.ERASE_SUBJECT, ANNA_ADDRESS)
    assert mailbox.messages() == []
    assert coded not in only(stored(Direction)).text


def test_the_name_of_a_file_and_the_last_of_many_recipients_name_an_erased_person(
    mailbox: Mailbox,
) -> None:
    done(mailbox.firm, RequestKind.ERASE_SUBJECT, ANNA_ADDRESS)
    crowd = ", ".join(f"p{n} <p{n}@x.example>" for n in range(900))
    many = letter("To many", "Hello", sender=BOB, to=f"{OWNER}, {crowd}, {ANNA_ADDRESS}")
    named = with_file_named(f"CV of {ANNA_ADDRESS}.pdf")
    assert synced(mailbox, many, named, letter("Lunch", "Today?", sender=BOB)) == {"Lunch"}
