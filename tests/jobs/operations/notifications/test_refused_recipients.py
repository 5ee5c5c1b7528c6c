"""A mail to several of whom the SMTP server refuses some: each gets it once or is a dead letter."""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from pytest_django import Settings

from jobs.models import DeadLetterQueue
from jobs.operations.dead_letters import reprocess
from jobs.testing import frozen_time, run_job
from tenants.models import Firm
from tenants.scope import firm_scope
from tests.jobs.operations.notifications.conftest import deliveries

pytestmark = [pytest.mark.req("U-04"), pytest.mark.django_db]
ANN, BEN, CARL = "ann@example.org", "ben@example.org", "carl@example.org"
MAIL = {"to": [ANN, BEN], "subject": "Paid", "body": "Order 7 is paid."}


@dataclass
class Server:
    """The recipients that the server refuses, with the code, and those of each mail it took."""

    refused: dict[str, int] = field(default_factory=dict)
    taken: list[list[str]] = field(default_factory=list)


@pytest.fixture
def server(settings: Settings) -> Iterator[Server]:
    """Serve SMTP on loopback, and let Django's backend send to it."""
    state = Server()

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            self._say("220 here")
            recipients: list[str] = []
            for line in self.rfile:
                word = line[:4].upper()
                if word == b"RCPT":
                    address = line.decode().split("<")[1].split(">")[0]
                    code = state.refused.get(address, 250)
                    recipients += [address] if code == 250 else []
                    self._say(f"{code} heard")
                elif word == b"DATA":
                    self._say("354 go on")
                    while self.rfile.readline() != b".\r\n":
                        pass
                    state.taken.append(recipients)
                    self._say("250 taken")
                elif word == b"QUIT":
                    self._say("221 bye")
                    return
                else:
                    self._say("250 heard")

        def _say(self, line: str) -> None:
            self.wfile.write(f"{line}\r\n".encode())

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as served:
        thread = threading.Thread(target=served.serve_forever, daemon=True)
        thread.start()
        settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
        settings.EMAIL_HOST, settings.EMAIL_PORT = (
            served.server_address[0],
            served.server_address[1],
        )
        yield state
        served.shutdown()
        thread.join()


def history() -> list[tuple[str, str]]:
    """Return the recipients of each attempt, and how it ended."""
    return [(row.recipient, row.status) for row in deliveries()]


def test_whom_the_server_takes_later_gets_it_then_and_nobody_twice(
    firm: Firm, server: Server
) -> None:
    server.refused = {BEN: 450}
    job = run_job("email_send", MAIL, firm=firm)
    assert (job.status, server.taken) == ("pending", [[ANN]])
    assert history() == [(ANN, "delivered"), (BEN, "failed")]
    server.refused = {}
    with frozen_time() as clock:
        clock.tick(hours=1)
        assert run_job(job).status == "completed"
    assert server.taken == [[ANN], [BEN]]
    assert history()[-1] == (BEN, "delivered")


def test_whom_the_server_refuses_for_good_is_a_dead_letter(firm: Firm, server: Server) -> None:
    server.refused = {ANN: 550}
    job = run_job("email_send", MAIL, firm=firm)
    assert (job.status, server.taken) == ("dlq", [[BEN]])
    assert job.last_error == "the mail server refused every recipient (550)"
    assert history() == [(BEN, "delivered"), (ANN, "refused")]


def test_a_mail_that_all_are_refused_is_sent_to_all_again(firm: Firm, server: Server) -> None:
    server.refused = {ANN: 450, BEN: 550}
    job = run_job("email_send", MAIL, firm=firm)
    assert job.status == "pending"
    server.refused = {}
    with frozen_time() as clock:
        clock.tick(hours=1)
        assert run_job(job).status == "completed"
    assert server.taken == [[ANN, BEN]]


def test_who_is_named_since_in_a_corrected_payload_gets_it_and_who_had_it_does_not(
    firm: Firm, server: Server
) -> None:
    server.refused = {BEN: 550}
    job = run_job("email_send", MAIL, firm=firm)
    assert (job.status, server.taken) == ("dlq", [[ANN]])
    with firm_scope(firm):
        letter = DeadLetterQueue.objects.get(original_job_id=job.pk)
        reprocess(letter, payload={**MAIL, "to": [ANN, CARL]}, reason="Ben has left")
    assert run_job(job).status == "completed"
    assert server.taken == [[ANN], [CARL]]
