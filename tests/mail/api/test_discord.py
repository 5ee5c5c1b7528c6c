"""Buttons in Discord: signed by Discord, made by Mailroom, pressed by somebody who may decide."""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from jobs.models import Delivery
from mail.models import MailAccount
from tenants.scope import firm_scope
from tests.mail.approval_kit import audited, person, reread, waiting
from tests.mail.mail_kit import Mailbox, drain, jobs, stored
from tests.mail.send_kit import at_once, sent
from tests.queue_kit import later

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-14")]

KEY = Ed25519PrivateKey.generate()
ADA = "81384788765712384"


class Channel:
    """A Discord of the test's own: what was posted to it, and what it answers."""

    def __init__(self) -> None:
        self.posted: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.status = 204
        self.headers: dict[str, str] = {}


@pytest.fixture
def channel(settings: Settings) -> Iterator[Channel]:
    """Serve a webhook on this machine, and configure the service to post to it."""
    taken = Channel()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            taken.posted.append(json.loads(body))
            taken.paths.append(self.path)
            self.send_response(taken.status)
            for name, value in taken.headers.items():
                self.send_header(name, value)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    settings.DISCORD_WEBHOOK_URL = f"http://127.0.0.1:{server.server_port}/webhooks/1/secret"
    settings.DISCORD_PUBLIC_KEY = KEY.public_key().public_bytes_raw().hex()
    settings.DISCORD_USERS = ((ADA, "ada@acme.example"),)
    try:
        yield taken
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def box(mailbox: Mailbox) -> Mailbox:
    return at_once(mailbox)


def buttons(channel: Channel) -> dict[str, str]:
    """Return the buttons of the one question, by their text."""
    (posted,) = channel.posted
    (row,) = posted["components"]
    return {one["label"]: one.get("custom_id", "") for one in row["components"]}


def send(
    interaction: dict[str, Any], *, key: Ed25519PrivateKey = KEY, age: float = 0, **headers: str
) -> Any:
    """Post an interaction as Discord does."""
    body = json.dumps(interaction).encode()
    moment = str(int(time.time() - age))
    signature = key.sign(moment.encode() + body).hex()
    given = {"X-Signature-Ed25519": signature, "X-Signature-Timestamp": moment, **headers}
    return Client().post("/webhooks/discord/", body, content_type="application/json", headers=given)


def press(custom_id: str, presser: str = ADA, **options: Any) -> Any:
    """Press a button."""
    person = {"member": {"user": {"id": presser}}}
    return send({"type": 3, "data": {"custom_id": custom_id}, **person}, **options)


def test_the_question_is_posted_with_buttons_that_fit(box: Mailbox, channel: Channel) -> None:
    person(box)
    waiting(box)
    drain()
    assert channel.paths == ["/webhooks/1/secret?with_components=true"]
    (posted,) = channel.posted
    assert posted["allowed_mentions"] == {"parse": []}
    assert "anna\\@customer.example" in posted["content"]
    assert set(buttons(channel)) == {"Approve", "Reject"}
    assert all(0 < len(custom_id) <= 100 for custom_id in buttons(channel).values())


@pytest.mark.req("M-23")
def test_a_mailbox_of_somebodys_own_shows_nothing_of_its_mail(
    box: Mailbox, channel: Channel
) -> None:
    with firm_scope(box.firm):
        MailAccount.objects.update(shared=False)
    waiting(box)
    drain()
    (posted,) = channel.posted
    assert "customer" not in posted["content"]
    assert "Question" not in posted["content"]


def test_discords_ping_is_answered(channel: Channel) -> None:
    assert send({"type": 1}).json() == {"type": 1}


@pytest.mark.parametrize(("button", "mails"), [("Approve", 1), ("Reject", 0)])
def test_a_press_decides_once(box: Mailbox, channel: Channel, button: str, mails: int) -> None:
    person(box)
    approval = waiting(box)
    drain()
    first = press(buttons(channel)[button]).json()
    again = press(buttons(channel)["Approve"]).json()
    assert (first["type"], first["data"]["components"]) == (7, [])
    assert again["data"]["content"].startswith("Nothing was done.")
    drain()
    assert len(sent(box)) == mails
    done = reread(approval)
    assert (done.decided_via, done.decided_by) == ("discord", "ada@acme.example")
    assert [act for act, _ in audited(approval)] == [
        f"approval.{done.status}",
        "approval.approve_refused",
    ]


@pytest.mark.parametrize(
    "options",
    [
        {"key": Ed25519PrivateKey.generate()},
        {"age": 3600},
        {"X-Signature-Ed25519": "00" * 64},
        {"X-Signature-Ed25519": "not hex"},
        {"X-Signature-Timestamp": "later"},
    ],
)
def test_what_discord_did_not_sign_now_is_refused(
    box: Mailbox, channel: Channel, options: dict[str, Any]
) -> None:
    person(box)
    approval = waiting(box)
    drain()
    assert press(buttons(channel)["Approve"], **options).status_code == 401
    assert reread(approval).status == "pending"


def test_without_a_key_no_press_is_taken(
    box: Mailbox, channel: Channel, settings: Settings
) -> None:
    settings.DISCORD_PUBLIC_KEY = ""
    assert send({"type": 1}).status_code == 401


def test_a_forged_button_decides_nothing_and_is_audited(box: Mailbox, channel: Channel) -> None:
    person(box)
    approval = waiting(box)
    drain()
    reject = buttons(channel)["Reject"]
    for forged in (reject.replace("reject", "approve"), f"{reject[:-2]}xx"):
        press(forged)
    press("nothing of ours")
    drain()
    assert (reread(approval).status, sent(box)) == ("pending", [])
    assert [act for act, _ in audited(approval)] == ["approval.button_refused"] * 2


def test_a_stranger_in_the_channel_decides_nothing(box: Mailbox, channel: Channel) -> None:
    person(box)
    approval = waiting(box)
    drain()
    answer = press(buttons(channel)["Approve"], presser="42").json()
    assert answer["data"]["flags"] == 64
    assert reread(approval).status == "pending"
    assert audited(approval) == [("approval.approve_refused", "discord:42")]


@pytest.mark.parametrize("body", [{}, {"type": 3}, {"type": 3, "data": {"custom_id": "x"}}, []])
def test_what_is_no_interaction_is_malformed(channel: Channel, body: Any) -> None:
    assert send(body).status_code == 400


def test_a_discord_that_asks_for_time_gets_it(box: Mailbox, channel: Channel) -> None:
    person(box)
    channel.status, channel.headers = 429, {"Retry-After": "1800"}
    waiting(box)
    drain()
    (job,) = jobs("approval.notify")
    assert 1700 < (job.scheduled_at - timezone.now()).total_seconds() <= 1800


def test_a_discord_that_is_away_is_asked_again_and_the_e_mails_are_not(
    box: Mailbox, channel: Channel, mailoutbox: list[Any]
) -> None:
    person(box)
    channel.status = 500
    waiting(box)
    drain()
    assert len(jobs("approval.notify")) == 1
    channel.status = 204
    with later(3600):
        drain()
    assert (len(channel.posted), len(mailoutbox)) == (2, 1)
    assert jobs("approval.notify") == []
    posted = [one for one in stored(Delivery) if one.channel == "discord"]
    assert [(one.status, one.status_code, one.event) for one in posted] == [
        ("failed", 500, "approval"), ("delivered", 204, "approval"),
    ]  # fmt: skip
    assert not any("secret" in one.recipient + one.error for one in posted)
