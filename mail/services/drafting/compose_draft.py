"""Composes a draft: its text, by the model or a template, its recipients and its hash."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

import structlog

from mail.gmail.answers import Message as GmailMessage
from mail.gmail.client import GmailClient
from mail.gmail.mime import OutgoingMail, faults_of
from mail.llm.client import Answer, ModelClient, ModelError, ModelUnavailable, Question
from mail.llm.draft_writer import Ask, ReplyRequest, searches_for, write_reply
from mail.models import CallType, Draft, DraftOrigin, DraftSource, LLMCall, MailAccount, Message
from mail.services.deciding.budget import BudgetSpent, ModelPaused
from mail.services.deciding.classifiers import told_to_the_model
from mail.services.deciding.model_calls import (
    ask_model,
    configured_client,
)
from mail.services.drafting.gmail_drafts import content_hash, draft_body
from mail.services.drafting.reply_plan import ReplyPlan, plan_for, text_by_template
from mail.services.drafting.task import MOST_REWORKS, DraftTask, recipients_of
from mail.services.mailboxes.accounts import own_addresses
from mail.services.sending.compose import reply_content, sender_of, signed
from mail.services.timelines.correspondents import MOST_OF_A_THREAD, of_same_correspondent
from mail.services.timelines.threads import newest_first
from mail.text.parse import parse_message
from mail.text.parsed import Address
from mail.text.quotes import newest_text
from tenants.scope import firm_scope

MOST_MESSAGES = 20
LAST_REWORK = "⚠️ This is the last automatic rework. Further changes must be made manually.\n\n"
MAX_HITS: Final = 10
MAX_THREADS: Final = 5
MAX_THREAD_CHARS: Final = 2000
# What is cut out of the model's searches: it could leave the correspondence, or name times.
_OPERATORS: Final = re.compile(r"[{}()\"|]|\bOR\b|\b\w+:\S*|(?<!\w)-")
_ADDRESS: Final = re.compile(r"[\w.+-]+@[\w.-]+")
logger = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Written:
    """The text of an answer, and who wrote it."""

    text: str
    source: DraftSource
    template_name: str = ""
    related: int = 0


def compose_draft(task: DraftTask) -> Draft:
    """Return the draft that the task asks for, not stored yet; no transaction may be open.

    Raises:
        ModelError: the model did not answer; a later attempt may succeed.
    """
    with firm_scope(task.account.firm_id):
        plan = plan_for(task.account, task.message)
    written = _write(task, plan)
    text = written.text
    if task.rework_count >= MOST_REWORKS:
        text = LAST_REWORK + text
    with firm_scope(task.account.firm_id):
        call = _last_call(task) if written.source == DraftSource.MODEL else None
    draft = Draft(
        firm_id=task.account.firm_id,
        account=task.account,
        thread=task.thread,
        message=task.message,
        replaces=task.replaces,
        llm_call=call,
        origin=task.origin,
        source=written.source,
        template_name=written.template_name,
        style=plan.style.name,
        language=plan.language,
        rework_count=task.rework_count,
        instruction=task.instruction,
        related=written.related,
        text=text,
        job_id=task.job_id,
    )
    draft.rfc822_id = f"<mailroom.{draft.pk.hex}@{task.account.address.rpartition('@')[2]}>"
    mail = mail_of(draft)
    draft.to = [asdict(address) for address in mail.to]
    draft.subject = mail.subject
    draft.content_hash = content_hash(mail)
    return draft


def mail_of(draft: Draft) -> OutgoingMail:
    """Return the draft as the outgoing message."""
    content = reply_content(draft.message, text=draft_body(draft.text))
    sender, signature = sender_of(draft.account, draft.message)
    text, _ = signed(content.text, "", signature)
    return OutgoingMail(
        sender=sender,
        to=recipients_of(draft.account, draft.message),
        subject=content.subject,
        text=text,
        message_id=draft.rfc822_id,
        in_reply_to=content.in_reply_to,
        references=content.references,
    )


def _write(task: DraftTask, plan: ReplyPlan) -> Written:
    client = configured_client()
    if client is None:
        return _by_template(task, plan)
    try:
        return _by_model(task, plan, client)
    except BudgetSpent:
        return _by_template(task, plan)
    except ModelPaused:
        raise
    except ModelError as error:
        if isinstance(error, ModelUnavailable) and not task.is_last_attempt:
            raise
        failed = f"[ERROR: Draft generation failed — {error.code}: {error}]"
        return Written(failed, DraftSource.ERROR)


def _by_template(task: DraftTask, plan: ReplyPlan) -> Written:
    with firm_scope(task.account.firm_id):
        text, name = text_by_template(task.account, task.message, plan)
    if task.instruction:
        # A template cannot follow the person's order, so the order is put above it.
        text = f"[TODO: {task.instruction}]\n\n{text}"
    return Written(text, DraftSource.TEMPLATE, name)


def _by_model(task: DraftTask, plan: ReplyPlan, client: ModelClient) -> Written:
    def ask(question: Question, call_type: CallType) -> Answer:
        return ask_model(
            client,
            question,
            task.account,
            call_type=call_type,
            message_id=task.message.pk,
            job_id=task.job_id,
        )

    with firm_scope(task.account.firm_id):
        thread = newest_first(task.thread).defer("html")[:MOST_OF_A_THREAD]
        theirs = of_same_correspondent(task.message, thread, own_addresses(task.account))
        messages = theirs[:MOST_MESSAGES][::-1]
    related: list[str] = []
    if plan.gather_context:
        text = newest_text(task.message.text)
        related = related_mail(
            task.gmail,
            lambda question: ask(question, CallType.CONTEXT),
            task.message,
            text,
            answered=recipients_of(task.account, task.message),
        )
    request = _request(task, plan, messages)
    call_type = CallType.REWORK if task.origin == DraftOrigin.REWORK else CallType.DRAFT
    text = write_reply(lambda question: ask(question, call_type), replace(request, related=related))
    return Written(text, DraftSource.MODEL, related=len(related))


def _request(task: DraftTask, plan: ReplyPlan, messages: list[Message]) -> ReplyRequest:
    directions, llm_rules = told_to_the_model(task.account, task.message.sender_address)
    sender = Address(task.message.sender_name, task.message.sender_address)
    return ReplyRequest(
        sender=f"{sender.name} <{sender.address}>" if sender.name else sender.address,
        subject=task.message.subject,
        messages=[_shown(one) for one in messages],
        style=plan.style.name,
        rules=plan.style.rules,
        language=plan.language,
        sign_off=f"{plan.sign_off}\n{plan.owner}".strip(),
        examples=plan.style.examples,
        directions=directions,
        llm_rules=llm_rules,
        instructions=task.instruction,
        current_draft=task.current_text,
    )


def _shown(message: Message) -> dict[str, str]:
    return {
        "from": "me" if message.outgoing else message.sender_address,
        "date": f"{message.internal_date:%Y-%m-%d}",
        "text": newest_text(message.text),
    }


def _last_call(task: DraftTask) -> LLMCall | None:
    calls = LLMCall.objects.filter(message=task.message, job_id=task.job_id, error="")
    wrote = calls.filter(call_type__in=[CallType.DRAFT, CallType.REWORK])
    found: LLMCall | None = wrote.order_by("-pk").first()
    return found


def reply_faults(account: MailAccount, message: Message) -> list[Any]:
    """Return what keeps an answer to the message from being written; usually nothing."""
    draft = Draft(account=account, message=message, text="-", rfc822_id="<a@mailroom.invalid>")
    return list(faults_of(mail_of(draft)))


def related_mail(
    gmail: GmailClient, ask: Ask, message: Message, text: str, *, answered: Sequence[Address]
) -> list[str]:
    """Return the texts of up to five related conversations; none if anything goes wrong.

    `answered` are the recipients of the answer. Only correspondence with that very person is
    searched, so that a hostile mail cannot have others' mail quoted. If the answer goes to another
    address than the sender's, nothing is searched, because nobody knows who will read it.
    """
    if not _ADDRESS.fullmatch(message.sender_address):
        return []
    if [one.key for one in answered] != [message.sender_address.lower()]:
        return []
    try:
        queries = ["", *searches_for(ask, message.subject, text)]
        return list(_conversations(gmail, message, queries))
    except Exception as error:  # noqa: BLE001 - a draft without it is better than none
        logger.warning("mail.no_related_mail", error_class=type(error).__name__)
        return []


def _conversations(gmail: GmailClient, message: Message, queries: Sequence[str]) -> Iterator[str]:
    person = message.sender_address
    threads: dict[str, None] = {}
    for query in queries:
        words = " ".join(_OPERATORS.sub(" ", query).split())
        search = f"{{from:{person} to:{person}}} {words}".strip()
        page = gmail.list_messages(search, max_results=MAX_HITS)
        threads |= dict.fromkeys(one["threadId"] for one in page.get("messages", []))
    threads.pop(message.thread.gmail_thread_id, None)
    for thread_id in list(threads)[:MAX_THREADS]:
        messages = gmail.get_thread(thread_id)["messages"]
        yield "\n---\n".join(_text(one) for one in messages if _is_mail(one))[:MAX_THREAD_CHARS]


def _is_mail(message: GmailMessage) -> bool:
    return "DRAFT" not in message.get("labelIds", [])


def _text(message: GmailMessage) -> str:
    mail = parse_message(message)
    return f"{mail.sender.address}: {newest_text(mail.text)}"
