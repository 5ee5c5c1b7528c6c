"""Tools that read stored mail.

In a run about a message they read the conversations its author takes part in and nothing else of
the mailbox, so that a mail can get nothing out of other people's. If the answer goes to somebody
else, as by Reply-To or as the text of a form or a helpdesk says, they read the message's own
conversation alone, because a forwarder writes for many people and the author is only what the text
claims.
"""

from __future__ import annotations

from typing import Annotated, Any

from django.db.models import Q, QuerySet
from pydantic import Field

from mail.llm.base import Category
from mail.models import MailThread, Message, ThreadStatus
from mail.services.agents.tool import AgentTool, Arguments, ToolCallContext
from mail.services.mailboxes.accounts import own_addresses
from mail.services.sending.compose import answered_addresses
from mail.services.timelines.correspondents import MOST_OF_A_THREAD, of_same_correspondent
from mail.services.timelines.threads import newest_first, without_discarded

MAX_TEXT = 2000
MAX_MESSAGES = 10
MAX_THREADS = 20
MAX_WORDS = 8


class SearchArguments(Arguments):
    """What to look for."""

    words: Annotated[str, Field(max_length=200, description="All must be in subject or text.")] = ""
    limit: Annotated[int, Field(ge=1, le=10)] = 5


def read_conversation(context: ToolCallContext, _: Arguments) -> dict[str, Any]:
    """Return the newest messages of the conversation, the oldest of them first."""
    thread = newest_first(context.about.thread).defer("html")[:MOST_OF_A_THREAD]
    theirs = of_same_correspondent(context.about, thread, own_addresses(context.account))
    return {"messages": [_outline(one) for one in reversed(theirs[:MAX_MESSAGES])]}


def search_mail(context: ToolCallContext, arguments: SearchArguments) -> dict[str, Any]:
    """Return the newest messages that have all the words in subject or text."""
    found = _readable(context)
    for word in arguments.words.split()[:MAX_WORDS]:
        found = found.filter(Q(subject__icontains=word) | Q(text__icontains=word))
    newest = found.order_by("-internal_date", "-pk")[: arguments.limit]
    return {"messages": [_outline(one) for one in newest]}


def list_waiting(context: ToolCallContext, _: Arguments) -> dict[str, Any]:
    """Return the conversations that wait for the person, the newest first."""
    asks = [Category.NEEDS_RESPONSE, Category.ACTION_REQUIRED, Category.PAYMENT_REQUEST]
    threads = MailThread.objects.filter(account=context.account, classification__in=asks).exclude(
        status__in=[ThreadStatus.SENT, ThreadStatus.ARCHIVED]
    )
    if context.message is not None:
        threads = threads.filter(pk=context.message.thread_id)
    return {
        "conversations": [
            {"subject": one.subject[:200], "category": one.classification}
            for one in without_discarded(threads).order_by("-last_message_at")[:MAX_THREADS]
        ]
    }


def _readable(context: ToolCallContext) -> QuerySet[Message]:
    mail: QuerySet[Message] = Message.objects.filter(account=context.account)
    mail = mail.defer("html", "headers")
    if context.message is None:
        return mail
    author = context.message.sender_address
    asking = {one.key for one in answered_addresses(context.message)}
    if context.inquiry is not None:
        asking.add(context.inquiry.address)
    # The recipient of the answer must not learn what others wrote from, or to, the same address.
    own = own_addresses(context.account)
    if asking != {author.lower()} or author.lower() in own:
        thread = newest_first(context.message.thread).defer("html", "text")[:MOST_OF_A_THREAD]
        theirs = of_same_correspondent(context.message, thread, own)
        return mail.filter(pk__in=[one.pk for one in theirs])
    threads = Message.objects.filter(account=context.account, sender_address__iexact=author)
    return mail.filter(thread_id__in=threads.values("thread_id"))


def _outline(message: Message) -> dict[str, Any]:
    return {
        "from": message.sender_address,
        "sent_by_us": message.outgoing,
        "date": f"{message.internal_date:%Y-%m-%d %H:%M} UTC",
        "subject": message.subject[:200],
        "text": message.text[:MAX_TEXT],
    }


READING_TOOLS = (
    AgentTool(
        "read_conversation",
        "Read the earlier messages of this conversation.",
        Arguments,
        read_conversation,
    ),
    AgentTool(
        "search_mail",
        "Find messages by words; about a message, in its author's conversations only, "
        "and about a forwarded one in its own.",
        SearchArguments,
        search_mail,
    ),
    AgentTool(
        "list_waiting",
        "List the conversations that wait for the person.",
        Arguments,
        list_waiting,
    ),
)
