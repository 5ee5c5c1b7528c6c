"""Gmail's batch endpoint in the simulator, driven by our client and by bare requests."""

from __future__ import annotations

import pytest

from mail.gmail import errors
from mail.gmail.client import MAX_BATCH, GmailClient
from mail.gmail.simulator.answer import Request
from mail.gmail.simulator.faults import Fault
from mail.gmail.simulator.transport import SimulatorHttp
from tests.mail.gmail.mailbox_kit import ADDRESS, letter

pytestmark = pytest.mark.req("M-02", "M-03")


@pytest.fixture
def client(simulator) -> GmailClient:
    return GmailClient(lambda: SimulatorHttp(simulator, ADDRESS))


@pytest.fixture
def ids(simulator) -> list[str]:
    raws = [letter(f"Fees {number}", "Žluťoučký kůň" * number) for number in range(3)]
    return [simulator.import_message(ADDRESS, raw).gmail_message_id for raw in raws]


def test_a_batch_reads_what_single_requests_read(client, ids):
    assert list(client.get_messages(ids)) == [{one: client.get_message(one) for one in ids}]
    (minimal,) = client.get_messages(ids, "minimal")
    assert minimal[ids[0]] == client.get_message(ids[0], "minimal")


def test_one_message_that_fails_leaves_the_others_alone(client, simulator, ids):
    simulator.order_fault(Fault(503), method="messages.get")

    (found,) = client.get_messages([ids[0], "18c0ffee18c0ffee", ids[1]])

    assert isinstance(found[ids[0]], errors.GmailUnavailable)
    assert isinstance(found["18c0ffee18c0ffee"], errors.GmailNotFound)
    assert found[ids[1]]["id"] == ids[1]


def test_a_part_keeps_its_reason_and_its_retry_after(client, simulator, ids):
    simulator.order_fault(
        Fault(403, reason="userRateLimitExceeded", retry_after=7), method="messages.get"
    )

    (found,) = client.get_messages(ids[:1])
    error = found[ids[0]]

    assert isinstance(error, errors.GmailRateLimited)
    assert error.retry_after == 7


def test_a_lost_answer_is_lost_for_the_whole_batch(client, simulator, ids):
    simulator.order_fault(Fault(loses_answer=True), method="messages.get")

    with pytest.raises(errors.GmailUnavailable):
        list(client.get_messages(ids))


def test_many_messages_are_read_by_requests_that_gmail_answers_whole(client, simulator):
    raws = [letter(f"Fees {number}") for number in range(MAX_BATCH + 1)]
    ids = [simulator.import_message(ADDRESS, raw).gmail_message_id for raw in raws]

    read = [[one["id"] for one in found.values()] for found in client.get_messages(ids)]

    assert read == [ids[:MAX_BATCH], ids[MAX_BATCH:]]


def test_a_batch_has_a_largest_size(simulator):
    part = b"--b\r\ncontent-type: application/http\r\n\r\nGET /gmail/v1/users/me/profile\r\n\r\n"
    headers = {"content-type": "multipart/mixed; boundary=b"}

    def status(parts: int) -> int:
        body = part * parts + b"--b--\r\n"
        return simulator.answer(
            Request("POST", "/batch/gmail/v1", body, headers), address=ADDRESS
        ).status

    assert [status(parts) for parts in (1, 100, 101)] == [200, 200, 400]


@pytest.mark.parametrize("body", [b"", b"nonsense", b"--b\r\n\r\n\r\n--b--\r\n"])
def test_what_is_no_batch_is_refused(simulator, body):
    headers = {"content-type": "multipart/mixed; boundary=b"}

    answer = simulator.answer(Request("POST", "/batch", body, headers), address=ADDRESS)

    assert answer.status == 400
