"""Tells the people in a thread apart, because a form may put several people's mail into one.

Gmail puts mail from one address with one subject into one thread, for example the inquiries of a
contact form. Then only Reply-To names the person who asks; none of them may learn what another
wrote, or get another's answer.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from mail.models import Message
from mail.services.sending.compose import answered_addresses

# How many messages of a thread are read; Gmail begins a new thread after as many.
MOST_OF_A_THREAD = 100


def who_asks(message: Message, own: frozenset[str]) -> frozenset[str]:
    """Return the addresses that the message asks to answer; the owner's own only if no other is."""
    asking = frozenset(one.key for one in answered_addresses(message))
    return asking - own or asking


def of_same_correspondent(
    target: Message, messages: Iterable[Message], own: frozenset[str]
) -> list[Message]:
    """Return the thread's messages in their order, without those of others who use the same form.

    A thread is a form's if messages of one sender ask to answer different people; of any other
    thread all messages are returned.
    """
    thread = list(messages)
    if not _is_shared(thread, own):
        return thread
    theirs = who_asks(target, own)
    return [
        one for one in thread if one.pk == target.pk or not theirs.isdisjoint(_people(one, own))
    ]


def outline_with_target(
    target: Message, outline: Sequence[Message], own: frozenset[str]
) -> Sequence[Message]:
    """Return the same for messages with only an outline loaded. Must run in the firm's scope.

    If the message asks to answer its sender, all are returned.
    """
    if who_asks(target, own) == {target.sender_address.lower()}:
        return outline
    rows = Message.objects.filter(pk__in=[one.pk for one in outline[:MOST_OF_A_THREAD]])
    columns = ("outgoing", "sender_address", "sender_name", "headers", "to", "cc")
    same = of_same_correspondent(target, rows.only(*columns), own)
    kept = {target.pk, *(one.pk for one in same)}
    return [one for one in outline if one.pk in kept]


def _is_shared(messages: Iterable[Message], own: frozenset[str]) -> bool:
    asked: dict[str, set[frozenset[str]]] = defaultdict(set)
    for one in messages:
        if not one.outgoing:
            asked[one.sender_address.lower()].add(who_asks(one, own))
    return any(len(people) > 1 for people in asked.values())


def _people(message: Message, own: frozenset[str]) -> frozenset[str]:
    if not message.outgoing:
        return who_asks(message, own)
    return frozenset(str(one.get("address", "")).lower() for one in (*message.to, *message.cc))
