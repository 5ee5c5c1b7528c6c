"""The simulator over HTTP, through the real network stack."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading

import httplib2
import pytest
from django.core.management import CommandError, call_command
from google.oauth2.credentials import Credentials
from google_auth_httplib2 import AuthorizedHttp

from mail.gmail import errors
from mail.gmail.client import GmailClient
from mail.gmail.connect import SendOnceHttp
from mail.gmail.service import gmail_resources
from mail.gmail.simulator.faults import LOST_ANSWER
from mail.gmail.simulator.server import SimulatorServer
from tests.mail.gmail.mailbox_kit import ADDRESS, letter
from tests.support.paths import ROOT

pytestmark = pytest.mark.req("M-02", "M-03")


@pytest.fixture
def server(simulator):
    with SimulatorServer(simulator) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def _client(url: str, token: str) -> GmailClient:
    def open_http() -> AuthorizedHttp:
        return AuthorizedHttp(Credentials(token), http=SendOnceHttp(timeout=10))

    return GmailClient(open_http, resources=gmail_resources(url))


@pytest.fixture
def remote(server, simulator) -> GmailClient:
    return _client(server.url, simulator.access_token(ADDRESS))


def test_the_whole_round_works_over_http(remote, simulator):
    wire_id = simulator.import_message(ADDRESS, letter()).gmail_message_id
    start = remote.profile()["historyId"]

    label = remote.create_label("🤖 AI/FYI")
    remote.modify_message(wire_id, add=[label["id"]])
    remote.batch_modify([wire_id], remove=["UNREAD"])

    assert remote.list_messages('label:"🤖 AI/FYI" is:read')["messages"][0]["id"] == wire_id
    assert len(remote.history(start)["history"]) == 2
    with pytest.raises(errors.GmailNotFound):
        remote.get_message("0" * 16)


def test_a_lost_answer_to_a_write_is_not_sent_again(remote, simulator):
    remote.profile()
    simulator.order_fault(LOST_ANSWER, method="labels.create")

    with pytest.raises(errors.GmailUnavailable):
        remote.create_label("Boats")

    assert sum(label["name"] == "Boats" for label in remote.list_labels()) == 1


def test_httplib2_alone_would_send_the_write_again(server, simulator):
    token = simulator.access_token(ADDRESS)
    gmail = GmailClient(
        lambda: AuthorizedHttp(Credentials(token), http=httplib2.Http(timeout=10)),
        resources=gmail_resources(server.url),
    )
    simulator.order_fault(LOST_ANSWER, method="labels.create")

    # The repeated request conflicts with the label that the first request made.
    with pytest.raises(errors.GmailConflict):
        gmail.create_label("Boats")


def test_a_lost_answer_to_a_read_is_simply_asked_again(remote, simulator):
    simulator.order_fault(LOST_ANSWER, method="getProfile")

    assert remote.profile()["emailAddress"] == ADDRESS


@pytest.mark.parametrize("header", [{}, {"authorization": "Bearer wrong"}, {"authorization": "x"}])
def test_without_its_token_a_mailbox_stays_closed(server, simulator, header):
    simulator.access_token(ADDRESS)

    response, content = httplib2.Http().request(
        f"{server.url}/gmail/v1/users/me/profile", headers=header
    )

    assert response.status == 401
    assert json.loads(content)["error"]["errors"][0]["location"] == "Authorization"


def test_requests_without_a_usable_length_are_refused(server):
    url = f"{server.url}/gmail/v1/users/me/messages/send"
    for length, status in (("many", 411), (str(10**12), 413)):
        response, _ = httplib2.Http().request(url, "POST", headers={"content-length": length})
        assert response.status == status


def test_the_command_refuses_what_is_no_file_of_mailboxes(tmp_path):
    other = tmp_path / "notes.txt"
    other.write_text("Dear diary, " * 100)
    for store in (tmp_path, other, other / "below"):
        with pytest.raises(CommandError, match="--store"):
            call_command("gmail_simulator", "--port", "0", "--store", str(store))
    with pytest.raises(CommandError, match="argument --host: is empty"):
        call_command("gmail_simulator", "--port", "0", "--host", "")
    assert other.read_text() == "Dear diary, " * 100


@pytest.mark.processes
@pytest.mark.parametrize("told_to_stop", [signal.SIGINT, signal.SIGTERM])
def test_the_command_announces_where_it_serves_and_stops_when_told(
    simulator, tmp_path, told_to_stop
):
    token = simulator.access_token(ADDRESS)
    command = [sys.executable, "manage.py", "gmail_simulator", "--port", "0", "--json"]
    store = tmp_path / "gmail.sqlite3"
    with subprocess.Popen(
        [*command, "--store", str(store)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        announced = json.loads(process.stdout.readline())
        profile = _client(announced["url"], token).profile()
        process.send_signal(told_to_stop)
        rest, _ = process.communicate(timeout=90)

    assert announced["url"].startswith("http://127.0.0.1:")
    assert announced["access_tokens"] == {ADDRESS: token}
    assert profile["emailAddress"] == ADDRESS
    assert (process.returncode, rest) == (0, "")
