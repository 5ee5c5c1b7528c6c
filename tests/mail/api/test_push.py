"""The webhook for Pub/Sub: which pushes it accepts, and the one sync that each of them causes."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

import pytest
from google.auth import crypt, jwt
from pytest_django import Settings

from jobs.states import Status
from mail.gmail.errors import GmailUnavailable
from mail.gmail.simulator.push import _new_key
from mail.models import Connection, MailAccount, PushReceipt
from mail.services.mailboxes.accounts import open_account
from mail.services.queueing import request_sync
from tenants.scope import all_firms, firm_scope
from tests.mail.mail_kit import OWNER, Mailbox, drain, jobs, letter, stored
from tests.mail.push_kit import AUDIENCE, PATH, SERVICE_ACCOUNT, Pusher
from tests.queue_kit import change

if TYPE_CHECKING:
    from tenants.models import Firm

pytestmark = [pytest.mark.django_db, pytest.mark.req("M-05")]


def syncs() -> list[str]:
    """Return the status of each live sync."""
    return [job.status for job in jobs() if job.job_type in ("sync", "history.sync.gmail")]


def test_a_push_makes_one_pending_sync(mailbox: Mailbox, pusher: Pusher) -> None:
    assert pusher.push(OWNER, 1500).status_code == 200
    (job,) = jobs()
    assert (job.job_type, job.status) == ("sync", Status.PENDING)
    assert job.payload["account_id"] == str(mailbox.account.pk)
    assert job.payload["history_id"] == "1500"
    assert job.lock_key == f"gmail-sync:{mailbox.account.pk}"


def test_many_pushes_make_one_pending_sync(mailbox: Mailbox, pusher: Pusher, chaos: bool) -> None:
    token = pusher.token()
    for number in range(10_000 if chaos else 60):
        answer = pusher.push(OWNER, 1500 + number, str(number), token=token)
        assert answer.status_code == 200
    assert syncs() == [Status.PENDING]


def test_a_sync_that_waits_for_its_next_attempt_is_the_pending_one(
    mailbox: Mailbox, pusher: Pusher
) -> None:
    with firm_scope(mailbox.firm):
        first = request_sync(mailbox.account)
        # The state after a failed attempt that had begun to read the history.
        MailAccount.objects.filter(pk=mailbox.account.pk).update(sync_generation=1)
    change(first.job_id, attempts=1)
    pusher.push(OWNER, 1500)
    assert [job.pk for job in jobs()] == [first.job_id]


def test_a_push_while_a_sync_runs_makes_another(mailbox: Mailbox, pusher: Pusher) -> None:
    with firm_scope(mailbox.firm):
        running = request_sync(mailbox.account)
        MailAccount.objects.filter(pk=mailbox.account.pk).update(sync_generation=1)
    change(running.job_id, status=Status.PROCESSING)
    pusher.push(OWNER, 1500, "1")
    pusher.push(OWNER, 1501, "2")
    assert sorted(syncs()) == [Status.PENDING, Status.PROCESSING]


def test_a_repeated_push_is_recognised_by_its_message_id(mailbox: Mailbox, pusher: Pusher) -> None:
    mailbox.receive()
    drain()
    pusher.push(OWNER, 10_000, "77")
    drain()
    assert pusher.push(OWNER, 10_000, "77").status_code == 200
    assert jobs() == []
    assert [row.message_id for row in stored(PushReceipt)] == ["77"]
    pusher.push(OWNER, 10_000, "78")
    assert syncs() == [Status.PENDING]


def test_a_late_push_of_what_was_read_makes_no_job(mailbox: Mailbox, pusher: Pusher) -> None:
    mailbox.receive()
    pusher.push(OWNER, 1500, "1")
    drain()
    cursor = mailbox.reload().history_cursor
    assert cursor is not None
    assert pusher.push(OWNER, cursor, "2").status_code == 200
    assert pusher.push(OWNER, cursor - 1, "3").status_code == 200
    assert jobs() == []
    assert mailbox.reload().history_cursor == cursor


def test_the_same_address_in_two_firms_is_two_mailboxes(
    mailbox: Mailbox, pusher: Pusher, other_firm: Firm
) -> None:
    twin = open_account(other_firm, OWNER)
    assert pusher.push(OWNER.upper(), "1500").status_code == 200
    assert {(job.firm_id, job.payload["account_id"]) for job in jobs("sync")} == {
        (mailbox.firm.pk, str(mailbox.account.pk)),
        (other_firm.pk, str(twin.pk)),
    }


def test_an_unknown_address_is_answered_and_makes_no_job(mailbox: Mailbox, pusher: Pusher) -> None:
    assert pusher.push("nobody@acme.example", 1500).status_code == 200
    assert jobs() == []
    assert stored(PushReceipt) == []


@pytest.mark.parametrize(
    "values",
    [{"active": False}, {"connection": Connection.NEEDS_REAUTH}],
    ids=["switched-off", "needs-reauth"],
)
def test_a_mailbox_that_cannot_be_read_is_left_alone(
    mailbox: Mailbox, pusher: Pusher, values: dict[str, object]
) -> None:
    with all_firms("test"):
        MailAccount.objects.filter(pk=mailbox.account.pk).update(**values)
    assert pusher.push(OWNER, 1500).status_code == 200
    assert jobs() == []


@pytest.mark.parametrize(
    "claims",
    [
        {"aud": "https://elsewhere.example/"},
        {"aud": None},
        {"iss": "https://accounts.example"},
        {"email": "other@project.iam.example"},
        {"email_verified": False},
        {"email_verified": "true"},
        # Times that are long past or far ahead, because the test runs minutes after this line is
        # read.
        {"exp": 1_000_000_000},
        {"iat": 10_000_000_000},
        {"exp": "soon"},
    ],
    # Ids without the times, because every process of the suite must see the same names.
    ids=" ".join,
)
def test_a_token_that_is_not_for_us_is_refused(
    mailbox: Mailbox, pusher: Pusher, claims: dict[str, object]
) -> None:
    answer = pusher.push(OWNER, 1500, token=pusher.token(**claims))
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"] == "Bearer"
    assert jobs() == []


def forged(pusher: Pusher, *, key_id: str | None = None) -> str:
    """Return a token signed with a key that is not Google's, under the id of a key of Google's."""
    claims = jwt.decode(pusher.token(), verify=False)
    known = jwt.decode_header(pusher.token())["kid"]
    signer = crypt.RSASigner.from_string(_new_key()[1], key_id or known)
    return jwt.encode(signer, claims).decode()


def unsigned(pusher: Pusher) -> str:
    header = base64.urlsafe_b64encode(b'{"alg":"none","typ":"JWT"}').decode().rstrip("=")
    return f"{header}.{pusher.token().split('.')[1]}."


def test_a_forged_token_is_refused(mailbox: Mailbox, pusher: Pusher) -> None:
    good = pusher.token()
    tokens = [
        forged(pusher),
        forged(pusher, key_id="unknown"),
        unsigned(pusher),
        good[:-8] + "AAAAAAAA",
        "x" * 9000,
        "a.b.c",
        "nonsense",
        "",
    ]
    for token in tokens:
        assert pusher.push(OWNER, 1500, token=token).status_code == 401, token[:20]
    assert jobs() == []
    assert pusher.push(OWNER, 1500, token=good).status_code == 200


@pytest.mark.parametrize("missing", ["GMAIL_PUBSUB_AUDIENCE", "GMAIL_PUBSUB_SERVICE_ACCOUNT"])
def test_nothing_is_taken_where_nothing_is_configured(
    mailbox: Mailbox, pusher: Pusher, settings: Settings, missing: str
) -> None:
    setattr(settings, missing, "")
    token = pusher.token(aud="", email="")
    assert pusher.push(OWNER, 1500, token=token).status_code == 401


def body(data: object, **message: object) -> bytes:
    text = data if isinstance(data, str) else base64.b64encode(json.dumps(data).encode()).decode()
    return json.dumps({"message": {"data": text, "messageId": "1", **message}}).encode()


GOOD = {"emailAddress": OWNER, "historyId": 1500}


@pytest.mark.parametrize(
    ("sent", "field"),
    [
        (b"", "body"),
        (b"[]", "body"),
        (b'{"message": {}, "message": {}}', "body"),
        (b"[" * 40_000, "body"),
        (b'{"message": 1}', "message"),
        (body(GOOD, messageId=""), "message.messageId"),
        (body(GOOD, messageId="1" * 65), "message.messageId"),
        (body(GOOD, messageId="1\0"), "message.messageId"),
        (body(GOOD, messageId="1\ud800"), "message.messageId"),
        (body("%%%"), "message.data"),
        (body("AAAA"), "message.data"),
        (body([]), "message.data"),
        (body({"historyId": 1}), "message.data.emailAddress"),
        (body({"emailAddress": ["x"], "historyId": 1}), "message.data.emailAddress"),
        (body({**GOOD, "emailAddress": f"{OWNER}\0"}), "message.data.emailAddress"),
        (body({**GOOD, "emailAddress": f"{OWNER}\ud800"}), "message.data.emailAddress"),
        (body({"emailAddress": OWNER}), "message.data.historyId"),
        (body({**GOOD, "historyId": "many"}), "message.data.historyId"),
        (body({**GOOD, "historyId": True}), "message.data.historyId"),
        (body({**GOOD, "historyId": -1}), "message.data.historyId"),
        (body({**GOOD, "historyId": 10**30}), "message.data.historyId"),
        (body({**GOOD, "historyId": "²"}), "message.data.historyId"),
    ],
    ids=lambda value: value[:30].decode("ascii", "replace") if isinstance(value, bytes) else value,
)
def test_what_is_malformed_is_named(
    mailbox: Mailbox, pusher: Pusher, sent: bytes, field: str
) -> None:
    answer = pusher.send(sent, token=pusher.token())
    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"
    assert [fault["field"] for fault in answer.json()["errors"]] == [field]
    assert pusher.send(sent).status_code == 401


@pytest.mark.parametrize("history_id", [1500, "1500"])
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("padding", ["", "="])
def test_every_way_to_write_a_notification_is_read(
    mailbox: Mailbox, pusher: Pusher, history_id: int | str, encode: object, padding: str
) -> None:
    text = json.dumps({**GOOD, "historyId": history_id, "more": "ÿ>?"}, ensure_ascii=False)
    encoded = encode(text.encode()).decode()  # type: ignore[operator]  # one of the two above
    data = encoded if padding else encoded.rstrip("=")
    assert pusher.send(body(data), token=pusher.token()).status_code == 200
    assert jobs("sync")[0].payload["history_id"] == "1500"


def test_the_body_is_bounded(mailbox: Mailbox, pusher: Pusher) -> None:
    answer = pusher.send(b" " * (64 * 1024 + 1), token=pusher.token())
    assert answer.status_code == 413


def test_only_posts_are_taken(client: object, pusher: Pusher) -> None:
    assert client.get(PATH).status_code == 405  # type: ignore[attr-defined]  # pytest-django's


def test_google_that_cannot_be_asked_is_no_refusal(
    mailbox: Mailbox, pusher: Pusher, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Silent:
        def find(self, key_id: str) -> str:
            raise GmailUnavailable(reason="certificates")

    monkeypatch.setattr("mail.api.push.push_certificates", Silent)
    assert pusher.push(OWNER, 1500).status_code == 503


def test_no_address_is_logged(
    mailbox: Mailbox, pusher: Pusher, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="mail"):
        pusher.push(OWNER, 1500)
        pusher.push(OWNER, 1500, token="forged")
    written = str([record.msg for record in caplog.records])
    assert "'mail.push'" in written
    assert "'mail.push_refused'" in written
    assert OWNER not in written


@pytest.mark.django_db(transaction=True)
def test_pushes_of_a_watched_mailbox_arrive_over_http(
    mailbox: Mailbox, pusher: Pusher, live_server: object
) -> None:
    topic = "projects/acme/topics/other"
    address = f"{live_server.url}{PATH}"  # type: ignore[attr-defined]  # pytest-django's
    mailbox.simulator.subscribe(topic, address, audience=AUDIENCE, service_account=SERVICE_ACCOUNT)
    mailbox.gmail.watch(topic, ["INBOX"])
    mailbox.receive(letter("Sent"), labels=["SENT"])
    assert mailbox.simulator.deliver_pushes() == []
    mailbox.receive()
    assert mailbox.simulator.deliver_pushes(copies=3) == [200] * 3
    assert syncs() == [Status.PENDING]
    assert mailbox.simulator.deliver_pushes() == []
