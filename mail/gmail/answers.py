"""The shapes of Gmail's answers that the product reads; a key is missing if Gmail omits it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NotRequired, TypedDict, TypeVar

MessageFormat = Literal["full", "metadata", "minimal", "raw"]


class Profile(TypedDict):
    """users.getProfile."""

    emailAddress: str
    messagesTotal: int
    threadsTotal: int
    historyId: str


class Header(TypedDict):
    """One header; the name keeps the sender's case."""

    name: str
    value: str


class PartBody(TypedDict):
    """A part's bytes (base64url), or where to fetch them."""

    size: int
    data: NotRequired[str]
    attachmentId: NotRequired[str]


class MessagePart(TypedDict, total=False):
    """A node of the MIME tree."""

    partId: str
    mimeType: str
    filename: str
    headers: list[Header]
    body: PartBody
    parts: list[MessagePart]


class MessageReference(TypedDict):
    """A message named in a listing or returned by a write."""

    id: str
    threadId: str
    labelIds: NotRequired[list[str]]


class Message(MessageReference, total=False):
    """messages.get, in any format."""

    snippet: str
    historyId: str
    internalDate: str
    sizeEstimate: int
    payload: MessagePart
    raw: str


class MessagePage(TypedDict):
    """messages.list: no ``messages`` when nothing matches."""

    messages: NotRequired[list[MessageReference]]
    nextPageToken: NotRequired[str]
    resultSizeEstimate: int


class Thread(TypedDict):
    """threads.get, messages oldest first."""

    id: str
    historyId: str
    messages: list[Message]


class MessageChange(TypedDict):
    """A message that was added or deleted."""

    message: MessageReference


class LabelChange(MessageChange):
    """Labels that a message gained or lost."""

    labelIds: list[str]


class HistoryRecord(TypedDict):
    """One change of the mailbox."""

    id: str
    messages: NotRequired[list[MessageReference]]
    messagesAdded: NotRequired[list[MessageChange]]
    messagesDeleted: NotRequired[list[MessageChange]]
    labelsAdded: NotRequired[list[LabelChange]]
    labelsRemoved: NotRequired[list[LabelChange]]


class HistoryPage(TypedDict):
    """history.list: no ``history`` when nothing changed; ``historyId`` is the next cursor."""

    history: NotRequired[list[HistoryRecord]]
    nextPageToken: NotRequired[str]
    historyId: str


class Label(TypedDict):
    """A label; the visibilities are Gmail's constants, and labels.list leaves out the counts."""

    id: str
    name: str
    type: NotRequired[Literal["system", "user"]]
    messageListVisibility: NotRequired[str]
    labelListVisibility: NotRequired[str]
    messagesTotal: NotRequired[int]


class SendAs(TypedDict):
    """An address to write from; the primary one has no verification status."""

    sendAsEmail: str
    displayName: NotRequired[str]
    signature: NotRequired[str]
    isPrimary: NotRequired[bool]
    isDefault: NotRequired[bool]
    verificationStatus: NotRequired[Literal["accepted", "pending"]]


class Watch(TypedDict):
    """users.watch: ``expiration`` is in milliseconds since 1970."""

    historyId: str
    expiration: str


class Draft(TypedDict):
    """drafts.create and drafts.list: updating a draft keeps its id but changes its message's id."""

    id: str
    message: MessageReference


class DraftMessage(TypedDict):
    """drafts.get."""

    id: str
    message: Message


class DraftPage(TypedDict):
    """drafts.list: no ``drafts`` when there are none."""

    drafts: NotRequired[list[Draft]]
    nextPageToken: NotRequired[str]


PageT = TypeVar("PageT", MessagePage, HistoryPage, DraftPage)


def pages(fetch: Callable[[str | None], PageT]) -> Iterator[PageT]:
    """Yield the pages of a list; `fetch` gets a page's token, None for the first."""
    token: str | None = None
    while True:
        page = fetch(token)
        yield page
        token = page.get("nextPageToken")
        if not token:
            return
