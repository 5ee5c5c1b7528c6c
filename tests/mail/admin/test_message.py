"""A mail's HTML is shown to its readers, in a frame in which no script or form works."""

from __future__ import annotations

import pytest
from django.test import Client
from django.urls import reverse

from mail.models import Message
from tenants.models import Firm, Role
from tests.factories.mail import MessageFactory
from tests.factories.tenants import UserFactory

pytestmark = [pytest.mark.django_db, pytest.mark.req("M-22", "M-23")]

IMAGE = "https://sender.example/seen.png?who=anna"
HTML = (
    "<p onclick='steal()'>Our <b>prices</b></p><script>steal()</script>"
    f"<form action='https://sender.example'><input name=a></form><img src='{IMAGE}'>"
    "<a href='https://sender.example/shop'>shop</a><iframe src='https://sender.example'></iframe>"
)


@pytest.fixture
def client(firm: Firm) -> Client:
    client = Client()
    client.force_login(UserFactory(is_staff=True, member_of=firm, member_of__role=Role.VIEWER))
    return client


def mail_of(firm: Firm, html: str = HTML, *, shared: bool = True) -> Message:
    message: Message = MessageFactory(
        account__firm=firm, account__shared=shared, html=html, text="Our prices"
    )
    return message


def page_of(message: Message) -> str:
    return reverse("admin:mail_message_change", args=[message.pk])


def frame_of(message: Message) -> str:
    return reverse("admin:mail_message_html", args=[message.pk])


def policy(answer: object) -> dict[str, str]:
    header = answer.headers["Content-Security-Policy"]  # type: ignore[attr-defined]
    return dict(part.strip().partition(" ")[::2] for part in header.split(";"))


def test_nothing_in_the_frame_acts_or_is_fetched(client: Client, firm: Firm) -> None:
    answer = client.get(frame_of(mail_of(firm)))
    html = answer.content.decode()
    assert "<b>prices</b>" in html
    for banned in ("script", "onclick", "steal", "<form", "<input", "<iframe", IMAGE):
        assert banned not in html
    assert 'href="https://sender.example/shop"' in html
    found = policy(answer)
    assert found["sandbox"] == "allow-popups allow-popups-to-escape-sandbox"
    assert (found["default-src"], found["img-src"]) == ("'none'", "data:")
    assert found["form-action"] == "'none'"
    assert found["frame-ancestors"] == "'self'"
    assert answer.headers["X-Frame-Options"] == "SAMEORIGIN"
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert "no-store" in answer.headers["Cache-Control"]


def test_remote_images_are_shown_when_asked_for_and_of_this_page_alone(
    client: Client, firm: Firm
) -> None:
    message = mail_of(firm)
    page = client.get(page_of(message)).content.decode()
    assert "Remote images are left out" in page
    assert f'src="{frame_of(message)}"' in page
    asked = client.get(f"{page_of(message)}?images=1").content.decode()
    assert "Remote images are left out" not in asked
    assert f'src="{frame_of(message)}?images=1"' in asked
    answer = client.get(f"{frame_of(message)}?images=1")
    assert IMAGE in answer.content.decode()
    assert policy(answer)["img-src"] == "data: https:"
    assert IMAGE not in client.get(frame_of(message)).content.decode()


def test_a_mail_without_html_or_remote_images_says_nothing_of_them(
    client: Client, firm: Firm
) -> None:
    plain = mail_of(firm, html="")
    assert "<iframe" not in client.get(page_of(plain)).content.decode()
    assert client.get(frame_of(plain)).status_code == 404
    bare = client.get(page_of(mail_of(firm, html="<p>Hello</p>"))).content.decode()
    assert "<iframe" in bare
    assert "Remote images are left out" not in bare


def test_only_its_readers_see_it(client: Client, firm: Firm, other_firm: Firm) -> None:
    private = mail_of(firm, shared=False)
    assert client.get(frame_of(private)).status_code == 403
    assert "<iframe" not in client.get(page_of(private)).content.decode()
    assert client.get(frame_of(mail_of(other_firm))).status_code == 404
    assert Client().get(frame_of(mail_of(firm))).status_code == 302


def test_a_mail_of_unclosed_tags_is_looked_through_at_once(client: Client, firm: Firm) -> None:
    hostile = "<img " * 300_000
    page = client.get(page_of(mail_of(firm, hostile))).content.decode()
    assert "Remote images are left out" not in page
    page = client.get(
        page_of(mail_of(firm, f"{hostile}><IMG alt=x SRC = {IMAGE}>"))
    ).content.decode()
    assert "Remote images are left out" in page
