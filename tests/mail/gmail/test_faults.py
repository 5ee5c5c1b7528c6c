"""Ordered faults hit the requests they were ordered for, in any process, as often as ordered."""

from __future__ import annotations

from traceback import format_exception

import pytest
from googleapiclient.errors import HttpError

from mail.gmail import errors
from mail.gmail.client import GmailClient
from mail.gmail.simulator.api import GmailSimulator
from mail.gmail.simulator.faults import LOST_ANSWER, LOST_REQUEST, Fault
from mail.gmail.simulator.transport import SimulatorHttp
from tests.mail.gmail.mailbox_kit import ADDRESS, letter

pytestmark = pytest.mark.req("M-02", "M-03")


@pytest.mark.parametrize(
    ("fault", "kind", "reason", "retry_after"),
    [
        (Fault(401), errors.GmailAuthExpired, "authError", None),
        (Fault(403), errors.GmailForbidden, "forbidden", None),
        (Fault(403, "insufficientPermissions"), errors.GmailForbidden, "insufficientPermissions", None),
        (Fault(403, "userRateLimitExceeded"), errors.GmailRateLimited, "userRateLimitExceeded", None),
        (Fault(429, retry_after=9), errors.GmailRateLimited, "rateLimitExceeded", 9),
        (Fault(500), errors.GmailUnavailable, "backendError", None),
        (Fault(503), errors.GmailUnavailable, "backendError", None),
        (Fault(400), errors.GmailUnavailable, "failedPrecondition", None),
        (LOST_ANSWER, errors.GmailUnavailable, "TimeoutError", None),
        (LOST_REQUEST, errors.GmailUnavailable, "TimeoutError", None),
    ],
)  # fmt: skip
def test_a_fault_reaches_the_client_as_its_error(
    gmail, simulator, fault, kind, reason, retry_after
):
    simulator.order_fault(fault)

    with pytest.raises(errors.GmailError) as raised:
        gmail.profile()

    assert type(raised.value) is kind
    assert (raised.value.reason, raised.value.retry_after) == (reason, retry_after)
    assert gmail.profile()["emailAddress"] == ADDRESS


def test_what_gmail_says_is_in_no_traceback(gmail, simulator):
    word = "divorce"
    simulator.order_fault(Fault(400, "invalidArgument", f"Invalid query: {word}"))

    with pytest.raises(errors.GmailBadRequest) as raised:
        gmail.list_messages(f"subject:{word}")

    # The original error stays reachable for a debugger, but is not in the traceback.
    assert isinstance(raised.value.__context__, HttpError)
    assert word not in "".join(format_exception(raised.value))


def test_a_refused_write_has_no_effect(gmail, simulator):
    wire_id = simulator.import_message(ADDRESS, letter()).gmail_message_id
    simulator.order_fault(Fault(503), method="messages.modify")

    with pytest.raises(errors.GmailUnavailable):
        gmail.modify_message(wire_id, add=["STARRED"])

    assert "STARRED" not in gmail.get_message(wire_id)["labelIds"]


def test_a_lost_answer_had_its_effect(gmail, simulator):
    wire_id = simulator.import_message(ADDRESS, letter()).gmail_message_id
    simulator.order_fault(LOST_ANSWER, method="messages.modify")

    with pytest.raises(errors.GmailUnavailable):
        gmail.modify_message(wire_id, add=["STARRED"])

    assert "STARRED" in gmail.get_message(wire_id)["labelIds"]


def test_a_lost_request_had_none(gmail, simulator):
    wire_id = simulator.import_message(ADDRESS, letter()).gmail_message_id
    simulator.order_fault(LOST_REQUEST, method="messages.modify")

    with pytest.raises(errors.GmailUnavailable):
        gmail.modify_message(wire_id, add=["STARRED"])

    assert "STARRED" not in gmail.get_message(wire_id)["labelIds"]


def test_a_fault_meets_only_its_method_mailbox_and_number_of_requests(simulator):
    bob = "bob@sail.example"
    ada_gmail, bob_gmail = (
        GmailClient(lambda address=address: SimulatorHttp(simulator, address))
        for address in (ADDRESS, bob)
    )
    simulator.order_fault(Fault(500), method="labels.list", address=bob.upper(), times=2)

    assert bob_gmail.profile()
    assert ada_gmail.list_labels()
    for _ in range(2):
        with pytest.raises(errors.GmailUnavailable):
            bob_gmail.list_labels()
    assert bob_gmail.list_labels()


def test_faults_come_in_the_order_they_were_ordered(gmail, simulator):
    simulator.order_fault(Fault(429))
    simulator.order_fault(Fault(500))

    with pytest.raises(errors.GmailRateLimited):
        gmail.profile()
    with pytest.raises(errors.GmailUnavailable):
        gmail.profile()


def test_another_opening_of_the_file_meets_the_fault_too(gmail, tmp_path):
    GmailSimulator(tmp_path / "gmail.sqlite3").order_fault(Fault(401))

    with pytest.raises(errors.GmailAuthExpired):
        gmail.profile()
