"""Connecting a mailbox from end to end: admin, consent page, token server over HTTP, and back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qs, urlsplit
from uuid import uuid4

import pytest
from django.apps import apps
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from jobs.models import Pause, RateLimit
from jobs.queue import enqueue
from jobs.testing import run_job
from mail.gmail.client import GmailClient
from mail.gmail.simulator.faults import Fault
from mail.gmail.simulator.server import SimulatorServer
from mail.labels import LABEL_NAMES, LabelKey
from mail.models import (
    Action,
    AgentRun,
    Connection,
    Decision,
    MailAccount,
    MailCredential,
    MailThread,
    Message,
    Mode,
)
from mail.services.actions.sweep import sweep_actions
from mail.services.mailboxes import erase_mail as erase_mail_module
from mail.services.mailboxes.connect_account import disconnect_account
from mail.services.mailboxes.credentials import StoredToken
from mail.services.mailboxes.erase_mail import CONTENT, count_mail, erase_mail
from mail.services.queueing import request_sync
from mail.services.sending.outbound import request_reply
from mail.services.syncing.labels import ensure_own_labels
from tenants.models import Firm, Membership, Role
from tenants.scope import firm_scope
from tests.factories.tenants import UserFactory
from tests.jobs.admin.pages import audit_entries, messages_of, now, operation_url, submit
from tests.mail.draft_kit import (
    QUESTION,
    asked,
    give_label,
    listed,
    prepared,
    state_labels,
)
from tests.mail.google_kit import MODIFY, answer_consent, granted
from tests.mail.mail_kit import Mailbox, drain, drain_later, jobs, letter, only, stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-01", "M-24")]

NEW = "grace@acme.example"
CONNECT = "admin:mail_mailaccount_connect"


def browser_of(firm: Firm, role: Role = Role.OPERATOR, name: str = "grace") -> Client:
    user = UserFactory(
        username=f"{name}-of-{firm.slug}", is_staff=True, member_of=firm, member_of__role=role
    )
    client = Client()
    client.force_login(user)
    return client


def start(client: Client, account: MailAccount | None = None) -> str:
    """Begin to connect a mailbox, and return Google's address to which the browser is sent."""
    if account is None:
        answer = client.post(reverse(CONNECT), {"seen": ""})
    else:
        answer = submit(client, account, "reconnect")
    assert answer.status_code == 302, answer.content
    return str(answer.headers["location"])


def come_back(client: Client, back: dict[str, str]) -> Any:
    return client.get(reverse("gmail-oauth-callback"), back)


def connect(client: Client, address: str = NEW, account: MailAccount | None = None) -> Any:
    return come_back(client, answer_consent(start(client, account), address))


def offers_connect(client: Client) -> bool:
    """Say whether the list of mailboxes has the button."""
    page = client.get(reverse("admin:mail_mailaccount_changelist")).content.decode()
    return f'href="{reverse(CONNECT)}"' in page


def test_a_mailbox_is_connected_synced_and_only_suggested_for(
    google: SimulatorServer, firm: Firm
) -> None:
    google.simulator.add_alias(NEW, "Grace@Other.example")
    google.simulator.add_alias(NEW, "unproven@other.example", verified=False)
    from tests.mail.mail_kit import letter

    wire_id = google.simulator.import_message(NEW, letter(to=NEW)).gmail_message_id
    client = browser_of(firm)

    answer = connect(client)

    account = only(stored(MailAccount), address=NEW)
    assert answer.headers["location"] == reverse("admin:mail_mailaccount_change", args=[account.pk])
    assert (account.connection, account.mode, account.shared) == ("connected", "suggest", False)
    pace = only(stored(RateLimit), firm_id=firm.pk)
    assert (pace.counted_by, pace.amount, pace.per_seconds, pace.burst) == ("key", 9000, 60, 1500)
    assert account.aliases == ["grace@other.example"]
    assert account.owner.username == "grace-of-acme"  # type: ignore[union-attr]
    (entry,) = audit_entries(account.pk)
    assert (entry.act, entry.actor_name) == ("mailbox.connect", "grace-of-acme")
    assert entry.after["scopes"] == [MODIFY]

    drain()
    assert [message.gmail_message_id for message in stored(Message)] == [wire_id]
    assert len(stored(Decision)) == 1
    assert stored(Action) == []
    labels = Mailbox(firm, account, google.simulator).gmail.list_labels()
    assert not [label for label in labels if label.get("type") == "user"]


def test_the_page_says_what_is_asked_for_and_why(google: SimulatorServer, firm: Firm) -> None:
    page = browser_of(firm).get(reverse(CONNECT)).content.decode()
    assert "gmail.modify" in page
    assert "cannot delete mail for good" in page
    asked = parse_qs(urlsplit(start(browser_of(firm, name="second"))).query)
    assert asked["scope"] == [MODIFY]
    assert asked["access_type"] == ["offline"]
    assert asked["code_challenge_method"] == ["S256"]
    assert asked["redirect_uri"] == ["http://testserver/oauth/gmail/callback/"]


def test_no_mailbox_is_connected_in_the_system_firm(google: SimulatorServer, firm: Firm) -> None:
    client = Client()
    client.force_login(UserFactory(username="root", platform_staff=True))
    slug = Firm.objects.system().slug
    refused = client.post(reverse(CONNECT), {"seen": "", "firm": slug})
    assert refused.status_code == 400
    assert "The system firm cannot have a mailbox" in refused.content.decode()
    assert client.post(reverse(CONNECT), {"seen": "", "firm": firm.slug}).status_code == 302


def test_an_answer_counts_once_and_for_the_session_that_asked(
    google: SimulatorServer, firm: Firm
) -> None:
    client, other = browser_of(firm), browser_of(firm, name="mallory")
    back = answer_consent(start(client), NEW)
    assert "belongs to no request of yours" in messages_of(come_back(other, back))
    start(other)
    assert "belongs to no request of yours" in messages_of(come_back(other, back))
    assert stored(MailAccount)[1:] == []
    assert "Connected grace@acme.example" in messages_of(come_back(client, back))
    assert "belongs to no request of yours" in messages_of(come_back(client, back))


def test_nobody_who_is_not_signed_in_gets_anywhere(google: SimulatorServer, firm: Firm) -> None:
    answer = Client().get(reverse("gmail-oauth-callback"), {"state": "x", "code": "y"})
    assert answer.status_code == 302
    assert "/admin/login/" in answer.headers["location"]


@pytest.mark.parametrize(
    ("back", "said"),
    [
        ({"error": "access_denied"}, "You did not allow it"),
        ({"error": "server_error"}, "Google refused it"),
        ({"code": "forged"}, "invalid_grant"),
    ],
)
def test_what_is_refused_connects_nothing(
    google: SimulatorServer, firm: Firm, back: dict[str, str], said: str
) -> None:
    client = browser_of(firm)
    state = parse_qs(urlsplit(start(client)).query)["state"][0]
    assert said in messages_of(come_back(client, {**back, "state": state}))
    assert stored(MailCredential) == []


def test_a_consent_to_less_than_is_needed_connects_nothing(
    google: SimulatorServer, firm: Firm
) -> None:
    client = browser_of(firm)
    back = answer_consent(start(client), NEW, [])
    assert "did not grant" in messages_of(come_back(client, back))
    assert stored(MailCredential) == []


def test_a_google_account_without_gmail_is_told_apart_from_an_outage(
    google: SimulatorServer, firm: Firm
) -> None:
    client = browser_of(firm)
    back = answer_consent(start(client), NEW)
    missing = Fault(400, "failedPrecondition", "Mail service not enabled")
    google.simulator.order_fault(missing, method="getProfile")
    assert "has no Gmail" in messages_of(come_back(client, back))
    assert stored(MailCredential) == []


@pytest.mark.parametrize("code", [{}, {"code": ""}, {"code": "\0"}, {"code": "é" * 5000}])
def test_an_answer_without_a_proper_code_connects_nothing(
    google: SimulatorServer, firm: Firm, code: dict[str, str]
) -> None:
    client = browser_of(firm)
    back = answer_consent(start(client), NEW)
    answer = come_back(client, {"state": back["state"], **code})
    assert answer.status_code == 302
    assert "Nothing was connected" in messages_of(answer)


def test_a_local_mailbox_that_is_connected_is_like_a_new_one(
    google: SimulatorServer, mailbox: Mailbox
) -> None:
    client = browser_of(mailbox.firm)
    assert (mailbox.account.mode, mailbox.account.shared) == ("active", True)
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(history_cursor=7)
    connect(client, mailbox.account.address, mailbox.account)
    account = mailbox.reload()
    assert (account.connection, account.mode, account.shared) == ("connected", "suggest", False)
    assert account.owner.username == "grace-of-acme"  # type: ignore[union-attr]
    assert account.history_cursor is None


def test_a_viewer_connects_nothing(google: SimulatorServer, firm: Firm) -> None:
    assert browser_of(firm, Role.VIEWER).get(reverse(CONNECT)).status_code == 403


def test_without_google_there_is_nothing_to_connect(mailbox: Mailbox) -> None:
    client = browser_of(mailbox.firm)
    page = client.get(reverse(CONNECT))
    assert page.status_code == 409
    assert "GMAIL_BACKEND is simulator" in page.content.decode()
    assert not offers_connect(client)


def test_the_list_offers_to_connect_where_that_is_possible(
    google: SimulatorServer, firm: Firm
) -> None:
    assert offers_connect(browser_of(firm))


def test_the_same_address_in_another_firm_is_another_mailbox(
    google: SimulatorServer, firm: Firm, other_firm: Firm
) -> None:
    connect(browser_of(firm))
    connect(browser_of(other_firm))
    accounts = [row for row in stored(MailAccount) if row.address == NEW]
    assert {row.firm_id for row in accounts} == {firm.pk, other_firm.pk}
    assert [entry.act for row in accounts for entry in audit_entries(row.pk)] == [
        "mailbox.connect"
    ] * 2


def test_connecting_again_wakes_what_waited(connected: Mailbox) -> None:
    client = browser_of(connected.firm)
    connected.receive()
    connected.simulator.revoke_grants(connected.account.address)
    with firm_scope(connected.firm):
        request_sync(connected.account)
    drain()
    assert connected.reload().connection == Connection.NEEDS_REAUTH
    assert len(stored(Pause)) == 1
    cursor = connected.account.history_cursor

    wrong = connect(client, NEW, connected.account)
    assert "You chose grace@acme.example" in messages_of(wrong)
    assert connected.reload().connection == Connection.NEEDS_REAUTH

    connect(client, connected.account.address, connected.account)
    assert connected.reload().connection == Connection.CONNECTED
    assert (connected.account.last_error, connected.account.mode) == ("", Mode.ACTIVE)
    assert connected.account.history_cursor == cursor
    assert stored(Pause) == []
    entry = audit_entries(connected.account.pk)[-1]
    assert (entry.act, entry.before) == ("mailbox.reconnect", {"connection": "needs_reauth"})


@pytest.mark.parametrize("keep", ["now", "days"])
def test_disconnecting_withdraws_the_permission_and_settles_the_mail(
    connected: Mailbox, keep: str
) -> None:
    connected.receive_many(3)
    with firm_scope(connected.firm):
        request_sync(connected.account)
    drain()
    access = StoredToken(connected.account).fresh(None)
    client = browser_of(connected.firm, Role.ADMIN)

    answer = submit(
        client, connected.account, "disconnect", keep=keep, keep_days="7", reason="leaves"
    )
    assert "Disconnected" in messages_of(answer)
    drain()

    assert connected.reload().connection == Connection.DISCONNECTED
    assert stored(MailCredential) == []
    from mail.gmail.simulator.oauth import grant_of

    assert grant_of(connected.simulator._store, access.value) is None
    kept = 3 if keep == "days" else 0
    assert (len(stored(Message)), len(stored(MailThread)), len(stored(Decision))) == (kept,) * 3
    entry = audit_entries(connected.account.pk)[0]
    assert (entry.act, entry.reason) == ("mailbox.disconnect", "leaves")
    assert entry.after["keep_days"] == (7 if keep == "days" else 0)
    assert len(jobs("erase.gmail")) == (1 if keep == "days" else 0)


def test_jobs_of_a_disconnected_mailbox_end_canceled(connected: Mailbox) -> None:
    with firm_scope(connected.firm):
        request_sync(connected.account)
    submit(
        browser_of(connected.firm, Role.ADMIN),
        connected.account, "disconnect", keep="days", keep_days="7", reason="leaves",
    )  # fmt: skip
    drain()
    assert only(jobs(live=False), job_type="sync").status == "canceled"


def test_disconnecting_in_one_firm_leaves_the_other_firm_its_mailbox(
    google: SimulatorServer, firm: Firm, other_firm: Firm
) -> None:
    for one in (firm, other_firm):
        connect(browser_of(one, Role.ADMIN))
    here = next(row for row in stored(MailAccount) if row.firm_id == firm.pk and row.address == NEW)
    there = only(stored(MailAccount), firm_id=other_firm.pk)
    submit(
        browser_of(firm, Role.ADMIN, "ada"),
        here, "disconnect", keep="days", keep_days="1", reason="leaves",
    )  # fmt: skip
    drain()
    (credential,) = stored(MailCredential)
    assert credential.account_id == there.pk
    assert Mailbox(other_firm, there, google.simulator).gmail.profile()["emailAddress"] == NEW


def test_google_that_does_not_answer_is_asked_again_to_withdraw(connected: Mailbox) -> None:
    from mail.gmail.errors import GmailUnavailable

    client = browser_of(connected.firm, Role.ADMIN)
    submit(client, connected.account, "disconnect", keep="days", keep_days="1", reason="leaves")
    with patch("mail.gmail.oauth.revoke", side_effect=GmailUnavailable(status=503)):
        drain()
    (job,) = jobs("revoke.gmail")
    assert (job.status, job.attempts) == ("pending", 1)
    assert len(stored(MailCredential)) == 1


def test_mail_of_a_mailbox_connected_again_is_kept(connected: Mailbox) -> None:
    connected.receive()
    with firm_scope(connected.firm):
        request_sync(connected.account)
    drain()
    client = browser_of(connected.firm, Role.ADMIN)
    submit(client, connected.account, "disconnect", keep="now", keep_days="", reason="oops")
    granted(connected.account.address)
    connect(client, connected.account.address, connected.account)
    drain()
    assert len(stored(Message)) == 1
    assert len(stored(MailCredential)) == 1


@pytest.mark.req("M-04")
def test_mail_that_was_deleted_here_is_stored_again_with_the_labels_it_has(
    connected: Mailbox,
) -> None:
    with firm_scope(connected.firm):
        ensure_own_labels(connected.account, connected.gmail)
    for key in (LabelKey.FYI, LabelKey.NEEDS_RESPONSE):
        give_label(connected, connected.receive(letter(f"Labelled {key}")), key)
    connected.receive(letter("Plain"))
    connected.store_all()
    client = browser_of(connected.firm, Role.ADMIN)
    submit(client, connected.account, "disconnect", keep="now", keep_days="", reason="anew")
    drain()
    assert stored(Message) == []

    granted(connected.account.address)
    connect(client, connected.account.address, connected.account)
    drain()
    assert len(stored(Message)) == 3
    assert connected.reload().history_cursor is not None


@pytest.mark.req("M-04")
def test_mail_whose_jobs_ended_with_the_connection_is_read_when_it_is_back(
    connected: Mailbox,
) -> None:
    """No later sync would find the message, because its part of the history was read already."""
    before = connected.receive(letter("Before"))
    with firm_scope(connected.firm):
        MailAccount.objects.update(shared=False)
    connected.store_all()
    sync_only(connected)
    arrived = connected.receive()
    sync_only(connected)
    assert len(jobs("ingest.gmail")) == 1
    client = browser_of(connected.firm, Role.ADMIN)
    submit(client, connected.account, "disconnect", keep="days", keep_days="1", reason="by mistake")
    drain()
    assert [job.status for job in jobs("ingest.gmail", live=False)] == ["canceled"]

    connect(client, connected.account.address, connected.account)
    drain()
    assert {message.gmail_message_id for message in stored(Message)} == {before, arrived}
    assert all(thread.classification for thread in stored(MailThread))


@pytest.mark.req("M-19")
@pytest.mark.parametrize("cut_off", ["label", "draft", "outbox"])
def test_what_was_decided_before_a_disconnection_is_shown_when_it_is_back(
    connected: Mailbox, cut_off: str
) -> None:
    """The thread is judged already, so no later verdict would ask for its label or draft."""
    prepared(connected)
    with firm_scope(connected.firm):
        MailAccount.objects.update(shared=False)
    old = asked(connected, "For your information: we are moving.", message_id="<old@other.example>")
    (old_label,) = state_labels(connected, old) - {LabelKey.PARENT}
    remove_label(connected, old, old_label)
    arrived = connected.receive(letter("Price list", QUESTION, message_id="<q1@other.example>"))
    sync_only(connected)
    run_until(cut_off)
    client = browser_of(connected.firm, Role.ADMIN)
    submit(client, connected.account, "disconnect", keep="days", keep_days="1", reason="by mistake")
    drain()
    sweep_actions()
    connect(client, connected.account.address, connected.account)
    drain()
    assert state_labels(connected, arrived) - {LabelKey.PARENT} == {LabelKey.OUTBOX}
    assert len(listed(connected)) == 1
    # The thread that was shown before the disconnection is left as the person left it.
    assert state_labels(connected, old) - {LabelKey.PARENT} == set()


def run_until(cut_off: str) -> None:
    """Run a question's jobs, up to the one that labels it, drafts an answer, or shows that."""
    for job_type in ("ingest.gmail", "classify", "action.gmail", "draft"):
        waiting = jobs(job_type)
        if job_type == {"label": "action.gmail", "draft": "draft"}.get(cut_off):
            assert waiting
            return
        for job in waiting:
            run_job(job)
    assert jobs("action.gmail")


def remove_label(mailbox: Mailbox, gmail_message_id: str, key: LabelKey) -> None:
    labels = {one["name"]: one["id"] for one in mailbox.gmail.list_labels()}
    mailbox.gmail.modify_message(gmail_message_id, remove=[labels[LABEL_NAMES[key]]])


def sync_only(mailbox: Mailbox) -> None:
    with firm_scope(mailbox.firm):
        sync = request_sync(mailbox.account).job
    run_job(sync)


@pytest.mark.req("M-23")
@pytest.mark.parametrize("gone", ["left", "inactive", "there"])
def test_a_mailbox_whose_owner_is_gone_belongs_to_who_connects_it_again(
    connected: Mailbox, gone: str
) -> None:
    owner = UserFactory(username="olga", member_of=connected.firm, is_active=gone != "inactive")
    with firm_scope(connected.firm):
        MailAccount.objects.update(owner=owner, shared=False)
        if gone == "left":
            Membership.objects.filter(user=owner).delete()
    connect(browser_of(connected.firm), connected.account.address, connected.account)
    name = "olga" if gone == "there" else "grace-of-acme"
    assert connected.reload().owner.username == name  # type: ignore[union-attr]
    entry = audit_entries(connected.account.pk)[-1]
    assert entry.after["owner"] == name


def test_days_to_keep_are_asked_for(connected: Mailbox) -> None:
    client = browser_of(connected.firm, Role.ADMIN)
    answer = client.post(
        operation_url(connected.account, "disconnect"),
        {"seen": "connected active ", "keep": "days", "keep_days": "", "reason": "leaves"},
    )
    assert answer.status_code == 400
    assert "Say for how many days" in answer.content.decode()
    assert now(connected.account).connection == Connection.CONNECTED


# Tables whose rows stay when a mailbox's mail is deleted: settings, permissions, costs of calls.
KEPT = {
    "AgentSchedule", "Contact", "ContentGrant", "Direction", "LLMCall", "MailCredential", "MailLabel",
    "ReplySettings", "ReplyStyle", "ReplyTemplate", "RoutingRule", "Rule",
}  # fmt: skip


def test_every_table_with_mail_of_a_mailbox_is_emptied(connected: Mailbox) -> None:
    connected.receive()
    connected.store_all()
    (message,) = stored(Message)
    with firm_scope(connected.firm):
        request_reply(message, text="Nobody shall read this any more.")
        AgentRun.objects.create(
            account=connected.account, profile_name="helper", job_id=uuid4(), final_message="Secret"
        )
    client = browser_of(connected.firm, Role.ADMIN)
    submit(client, connected.account, "disconnect", keep="now", keep_days="", reason="leaves")
    drain()
    left = {
        model.__name__
        for model in apps.get_app_config("mail").get_models()
        if "account" in {field.name for field in model._meta.get_fields()} and stored(model)
    }
    assert left <= KEPT


def test_each_table_of_a_mailbox_is_either_emptied_or_kept() -> None:
    of_mailboxes = {
        model.__name__
        for model in apps.get_app_config("mail").get_models()
        if "account" in {field.name for field in model._meta.get_fields()}
    }
    # A row of the index is deleted with its message.
    emptied = {model.__name__ for model in CONTENT} | {"MessageIndex"}
    assert of_mailboxes <= emptied | KEPT
    assert not emptied & KEPT


def test_what_was_read_while_the_mailbox_was_disconnected_is_not_stored(connected: Mailbox) -> None:
    gmail_message_id = connected.receive()
    fetch = GmailClient.get_message

    def disconnects_meanwhile(gmail: GmailClient, *arguments: Any, **options: Any) -> Any:
        answer = fetch(gmail, *arguments, **options)
        disconnect_account(connected.account, keep_days=0)
        return answer

    with patch.object(GmailClient, "get_message", disconnects_meanwhile):
        payload = {"account_id": connected.account.pk, "gmail_message_id": gmail_message_id}
        enqueue("ingest.gmail", payload, firm=connected.firm)
        drain()
    assert only(jobs(live=False), job_type="ingest.gmail").status == "canceled"
    assert stored(Message) == []


def test_a_deletion_that_was_interrupted_says_of_how_many_rows(
    connected: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected.receive_many(2)
    connected.store_all()
    rows = count_mail(connected.account.pk, connected.firm.pk)
    disconnect_account(connected.account, keep_days=0)
    rows += 1  # the event that it was disconnected
    delete = erase_mail_module._delete_page

    def dies_at_the_end(*arguments: Any) -> int:
        if not stored(Message):
            monkeypatch.setattr(erase_mail_module, "_delete_page", delete)
            raise OSError("the worker died")
        return delete(*arguments)

    monkeypatch.setattr(erase_mail_module, "_delete_page", dies_at_the_end)
    (job,) = jobs("erase.gmail")
    assert run_job(job).status == "pending"
    drain_later()
    assert only(jobs(live=False), pk=job.pk).result == {"rows": rows}
    assert audit_entries(connected.account.pk)[-1].after == {"rows": rows}


def test_a_mailbox_connected_again_amid_the_deletion_keeps_what_is_left(
    connected: Mailbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    connected.receive_many(2)
    connected.store_all()
    disconnect_account(connected.account, keep_days=0)
    monkeypatch.setattr(erase_mail_module, "DELETED_AT_ONCE", 1)
    delete = erase_mail_module._delete_page

    def connects_again(*arguments: Any) -> int:
        deleted = delete(*arguments)
        if len(stored(Message)) == 1:
            with firm_scope(connected.firm):
                MailAccount.objects.update(connection=Connection.CONNECTED, history_cursor=7)
        return deleted

    monkeypatch.setattr(erase_mail_module, "_delete_page", connects_again)
    erase_mail(connected.account.pk, connected.firm.pk)
    assert len(stored(Message)) == 1
    assert connected.reload().history_cursor == 7


@pytest.mark.parametrize(
    ("connection", "labelled_anew"), [("disconnected", True), ("needs_reauth", False)]
)
def test_a_mailbox_that_was_given_up_for_long_has_no_old_mail_labelled_when_it_is_back(
    google: SimulatorServer, firm: Firm, connection: str, labelled_anew: bool
) -> None:
    client = browser_of(firm)
    connect(client)
    account = only(stored(MailAccount), address=NEW)
    long_ago = timezone.now() - timedelta(days=400)
    with firm_scope(firm):
        MailAccount.objects.filter(pk=account.pk).update(
            connection=connection, mode=Mode.ACTIVE, active_since=long_ago
        )
    connect(client, account=account)
    account = only(stored(MailAccount), address=NEW)
    assert (account.connection, account.mode) == ("connected", "active")
    # A mailbox that only needed a new grant keeps its `active_since`, so it misses no mail that
    # arrived meanwhile.
    assert (account.active_since > long_ago) is labelled_anew
