"""Legal but unexpected answers of a model: they end no run and fill no table."""

from __future__ import annotations

import json
from typing import Any

import pytest

from jobs.engine.outcomes import Completed
from mail.models import RunStatus
from mail.services.agents.run import MAX_STORED_TEXT
from tests.mail.agent_kit import make_profile, results, route_all, the_run, work
from tests.mail.llm.model_server import ModelServer
from tests.mail.mail_kit import Mailbox

pytestmark = [pytest.mark.django_db, pytest.mark.req("M-20")]

MOST_CALLS = 32


@pytest.fixture
def box(mailbox: Mailbox) -> Mailbox:
    """Return a mailbox whose mail an agent gets."""
    make_profile(mailbox)
    route_all(mailbox)
    return mailbox


@pytest.mark.parametrize("name", ["format\0disk", "format\ud800disk"])
def test_a_tools_name_that_no_database_takes_is_told_to_the_model(
    box: Mailbox, server: ModelServer, name: str
) -> None:
    server.answers = [[(name, {})], "Done."]
    (ended, *_) = work(box)
    assert isinstance(ended, Completed)
    assert results()[0]["error"].startswith("Unknown tool: format")
    assert (the_run().status, len(server.asked)) == (RunStatus.COMPLETED, 2)


def test_endless_arguments_are_neither_stored_nor_sent_on(
    box: Mailbox, server: ModelServer
) -> None:
    arguments: dict[str, Any] = {f"k{number}": "v" * 1000 for number in range(1000)}
    server.answers = [[("star", arguments)], "Done."]
    work(box)
    assert results() == [{"error": f"the arguments are longer than {MAX_STORED_TEXT} characters"}]
    assert len(json.dumps(the_run().steps)) < 1000
    assert len(json.dumps(server.asked[-1])) < 2 * MAX_STORED_TEXT


def test_of_ever_more_calls_only_some_are_stored(box: Mailbox, server: ModelServer) -> None:
    server.answers = [[("list_waiting", {})] * 1000, "Done."]
    work(box)
    found = results()
    assert len(found) == MOST_CALLS
    assert found[-1] == {"error": "at most 8 calls at once"}
    assert the_run().status == RunStatus.COMPLETED


def test_an_agent_without_tools_says_what_it_has_to_say(
    mailbox: Mailbox, server: ModelServer
) -> None:
    """OpenAI refuses an empty list of tools, so the request has none."""
    make_profile(mailbox, tools=[])
    route_all(mailbox)
    server.answers = ["Nothing to do."]
    work(mailbox)
    assert the_run().final_message == "Nothing to do."
    assert "tools" not in server.asked[-1]
