"""From a question to a draft in its thread, and what the person does with it."""

from __future__ import annotations

import pytest

from mail.labels import LabelKey
from mail.models import Decision, Draft, EventType, MailAccount, MailEvent, ReplySettings
from mail.services.mailboxes.modes import pause_mailbox, resume_writing
from tenants.scope import firm_scope
from tests.mail.draft_kit import (
    MARK,
    QUESTION,
    asked,
    begin_draft,
    draft_by_hand,
    edit,
    finished,
    give_label,
    in_gmail,
    listed,
    prepared,
    rule,
    state_labels,
    synced,
    the_thread,
    versions,
)
from tests.mail.mail_kit import OWNER, Mailbox, drain, jobs, letter, only, stored

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.req("M-19")]


def test_a_question_leads_to_a_draft_in_its_thread(mailbox: Mailbox) -> None:
    arrived = asked(prepared(mailbox))
    (draft,) = in_gmail(mailbox)
    assert (draft["From"], draft["To"]) == (OWNER, "Anna Novak <anna@customer.example>")
    assert draft["Subject"] == "Re: Price list"
    assert draft["In-Reply-To"] == draft["References"] == "<q1@customer.example>"
    assert draft.get_content_type() == "text/plain"
    assert draft.get_content().strip().startswith(MARK)
    question = mailbox.gmail.get_message(arrived, fmt="minimal")
    assert listed(mailbox)[0]["message"]["threadId"] == question["threadId"]
    assert state_labels(mailbox, arrived) == {LabelKey.OUTBOX}
    assert the_thread().status == "drafted"
    (row,) = stored(Draft)
    assert (row.status, row.source, row.template_name) == ("ready", "template", "built-in")
    event = only(stored(MailEvent), event_type=EventType.DRAFT_CREATED)
    assert event.detail["draft_id"] == str(row.pk)
    assert versions() == [("automatic", "ready", 0)]
    assert len(finished("draft")) == 1


def test_own_labels_and_drafts_do_not_come_back_as_work(mailbox: Mailbox) -> None:
    asked(prepared(mailbox))
    before = len(jobs(live=False))
    synced(mailbox)
    synced(mailbox)
    assert [job.job_type for job in jobs(live=False)[before:]] == ["sync", "sync"]


AUTOMATED = [
    {"List_Id": "<announce.example>"},
    {"Auto_Submitted": "auto-replied"},
    {"Precedence": "bulk"},
    {"Return_Path": "<>"},
    {"sender": "Mail Delivery Subsystem <mailer-daemon@mx.example>"},
    {"X_Mailroom_Message": "1"},
]


@pytest.mark.req("M-09")
@pytest.mark.parametrize("headers", AUTOMATED, ids=lambda one: next(iter(one)))
def test_automated_mail_gets_no_draft(mailbox: Mailbox, headers: dict[str, str]) -> None:
    prepared(mailbox)
    with firm_scope(mailbox.firm):
        # The rule gives the category for mail to answer, and the person asks for an answer, too.
        rule(mailbox, category="needs_response")
    arrived = asked(mailbox, **headers)
    give_label(mailbox, arrived, LabelKey.NEEDS_RESPONSE)
    synced(mailbox)
    manual = draft_by_hand(mailbox, arrived)
    assert manual["skipped"] is True
    assert listed(mailbox) == []
    assert versions() == []


def test_a_mailbox_that_suggests_only_gets_no_draft(mailbox: Mailbox) -> None:
    prepared(mailbox)
    with firm_scope(mailbox.firm):
        MailAccount.objects.update(mode="suggest")
    asked(mailbox)
    assert stored(Decision)[0].category == "needs_response"
    assert (listed(mailbox), versions(), jobs("draft", live=False)) == ([], [], [])


def test_a_paused_mailbox_is_drafted_in_once_it_goes_on(mailbox: Mailbox) -> None:
    prepared(mailbox)
    mailbox.receive(letter(text=QUESTION))
    mailbox.store_all()
    pause_mailbox(mailbox.account)
    drain()
    assert listed(mailbox) == []
    resume_writing(mailbox.account)
    drain()
    assert len(listed(mailbox)) == 1


def test_drafts_can_be_switched_off(mailbox: Mailbox) -> None:
    prepared(mailbox)
    with firm_scope(mailbox.firm):
        ReplySettings.objects.create(enabled=False)
    asked(mailbox)
    assert (listed(mailbox), jobs("draft", live=False)) == ([], [])
    assert the_thread().status == "pending"


def test_a_newer_question_replaces_an_untouched_draft(mailbox: Mailbox) -> None:
    asked(prepared(mailbox))
    asked(mailbox, f"One more thing. {QUESTION}", reply_to_id="<q1@customer.example>",
          message_id="<q2@customer.example>")  # fmt: skip
    (draft,) = in_gmail(mailbox)
    assert draft["In-Reply-To"] == "<q2@customer.example>"
    assert versions() == [("automatic", "withdrawn", 0), ("automatic", "ready", 0)]


def test_a_newer_question_leaves_an_edited_draft_alone(mailbox: Mailbox) -> None:
    asked(prepared(mailbox))
    edit(mailbox, "What I want to say myself.")
    asked(mailbox, f"One more thing. {QUESTION}", reply_to_id="<q1@customer.example>",
          message_id="<q2@customer.example>")  # fmt: skip
    (draft,) = in_gmail(mailbox)
    assert draft.get_content().strip() == "What I want to say myself."
    assert (versions(), the_thread().status) == ([("automatic", "ready", 0)], "drafted")


def test_an_answer_that_the_person_has_begun_is_left_alone(mailbox: Mailbox) -> None:
    prepared(mailbox)
    arrived = mailbox.receive(letter("Price list", QUESTION, message_id="<q1@customer.example>"))
    begin_draft(mailbox, arrived, "Dear Anna,")
    synced(mailbox)
    (draft,) = in_gmail(mailbox)
    assert draft.get_content().strip() == "Dear Anna,"
    assert (versions(), the_thread().status) == ([], "skipped")
    assert state_labels(mailbox, arrived) == {LabelKey.NEEDS_RESPONSE}
