"""Changes during an agent run, between two requests to the model or while the model answers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from jobs.engine.outcomes import Canceled, Completed, DeadLettered
from mail.models import Action, AgentProfile, Connection, MailAccount, RunStatus
from mail.services.agents import run as run_module
from mail.services.agents.profiles import change_profile, delete_profile
from tenants.scope import firm_scope
from tests.mail.agent_kit import PROFILE, make_profile, results, route_all, the_run, work
from tests.mail.llm.model_server import ModelServer
from tests.mail.mail_kit import Mailbox, only, stored

pytestmark = [pytest.mark.django_db, pytest.mark.req("M-20")]

Meanwhile = Callable[[int, Callable[[], object]], None]


@pytest.fixture
def meanwhile(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """Return a function that makes a change while the model works on a given answer."""
    ask = run_module.ask_agent
    asked: list[Any] = []

    def during(number: int, change: Callable[[], object]) -> None:
        def thinking(*args: Any, **options: Any) -> Any:
            reply = ask(*args, **options)
            asked.append(reply)
            if len(asked) == number:
                change()
            return reply

        monkeypatch.setattr(run_module, "ask_agent", thinking)

    return during


def the_profile() -> AgentProfile:
    profile: AgentProfile = only(stored(AgentProfile), name=PROFILE)
    return profile


def test_a_change_of_the_profile_holds_from_the_next_step(
    mailbox: Mailbox, server: ModelServer, meanwhile: Meanwhile
) -> None:
    make_profile(mailbox, tools=["list_waiting", "star"])
    route_all(mailbox)
    meanwhile(
        1, lambda: change_profile(the_profile(), tools=["list_waiting"], instructions="Be brief.")
    )
    server.answers = [[("star", {})], [("star", {})], "Done."]
    (ended, *_) = work(mailbox)
    assert isinstance(ended, Completed)
    assert results() == [{"error": "Unknown tool: star"}] * 2
    assert stored(Action) == []
    tools = [tool.get("function", tool)["name"] for tool in server.asked[1]["tools"]]
    system = server.asked[1].get("system") or server.asked[1]["messages"][0]["content"]
    assert tools == ["list_waiting"]
    assert "Be brief." in system


@pytest.mark.parametrize(
    "end",
    [lambda: change_profile(the_profile(), enabled=False), lambda: delete_profile(the_profile())],
)
def test_a_profile_that_is_switched_off_does_nothing_more(
    mailbox: Mailbox, server: ModelServer, meanwhile: Meanwhile, end: Callable[[], object]
) -> None:
    make_profile(mailbox)
    route_all(mailbox)
    meanwhile(2, end)
    server.answers = [[("list_waiting", {})], [("star", {})], "Done."]
    (ended, *_) = work(mailbox)
    assert isinstance(ended, DeadLettered)
    assert len(server.asked) == 2
    assert stored(Action) == []
    run = the_run()
    assert (run.status, run.iterations) == (RunStatus.ERROR, 1)
    assert run.error == "There is no enabled agent profile “shop”"


@pytest.mark.parametrize("change", [{"active": False}, {"connection": Connection.DISCONNECTED}])
def test_nothing_more_of_a_mailbox_that_may_not_be_used_is_told_to_the_model(
    mailbox: Mailbox, server: ModelServer, meanwhile: Meanwhile, change: dict[str, Any]
) -> None:
    make_profile(mailbox)
    route_all(mailbox)

    def take_away() -> None:
        with firm_scope(mailbox.firm):
            MailAccount.objects.filter(pk=mailbox.account.pk).update(**change)

    meanwhile(1, take_away)
    server.answers = [[("search_mail", {"words": ""})], "Done."]
    (ended, *_) = work(mailbox)
    assert isinstance(ended, Canceled)
    assert len(server.asked) == 1
