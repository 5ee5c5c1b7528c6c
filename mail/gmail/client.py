"""GmailClient, which makes all of the product's requests to Gmail."""

from __future__ import annotations

import base64
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

from googleapiclient.http import BatchHttpRequest, MediaInMemoryUpload

from mail.gmail.answers import (
    Draft,
    DraftMessage,
    DraftPage,
    HistoryPage,
    Label,
    Message,
    MessageFormat,
    MessagePage,
    MessageReference,
    Profile,
    SendAs,
    Thread,
    Watch,
)
from mail.gmail.errors import (
    UNREADABLE,
    GmailError,
    GmailHistoryExpired,
    GmailNotFound,
    GmailUnavailable,
    translate,
)
from mail.gmail.exchange import Exchange
from mail.gmail.service import Http, Resources, add_metadata, gmail_resources

# Gmail takes 100 requests in a batch, but refuses some of more than about 25 ("Too many concurrent
# requests for user"). Source: measurements in https://github.com/amd/gaia/issues/2720
MAX_BATCH = 20
# What Gmail answers with nothing but its status.
_WITHOUT_CONTENT = (".delete", ".batchModify", ".stop")
_ME = "me"


class GmailClient:
    """One mailbox; may be shared between threads.

    Every method makes one request (``num_retries=0``, because the queue does the retrying) and
    raises a GmailError when it fails.
    """

    def __init__(
        self, open_http: Callable[[], Http], *, resources: Resources | None = None
    ) -> None:
        """Call ``open_http`` once per thread, because threads must not share a connection."""
        self._open_http = open_http
        self._resources = resources or gmail_resources()
        self._local = threading.local()
        self.exchange = Exchange()

    def profile(self) -> Profile:
        """Return the mailbox's address, size and newest history id."""
        return cast("Profile", self._execute(self._resources.users.getProfile(userId=_ME)))

    def list_messages(
        self,
        query: str,
        page_token: str | None = None,
        max_results: int = 100,
        *,
        label_id: str | None = None,
        everywhere: bool = False,
    ) -> MessagePage:
        """Return one page of the messages a search matches, newest first; 500 at most.

        With `everywhere` spam and trash are searched, too.
        """
        request = self._resources.messages.list(
            userId=_ME,
            q=query,
            pageToken=page_token,
            maxResults=max_results,
            labelIds=[label_id] if label_id else None,
            includeSpamTrash=everywhere,
        )
        return cast("MessagePage", self._execute(request))

    def get_message(self, message_id: str, fmt: MessageFormat = "full") -> Message:
        """Return one message.

        Raises:
            GmailNotFound: it was deleted for good.
        """
        request = self._resources.messages.get(userId=_ME, id=message_id, format=fmt)
        return cast("Message", self._execute(request))

    def get_messages(
        self, message_ids: Sequence[str], fmt: MessageFormat = "full"
    ) -> Iterator[dict[str, Message | GmailError]]:
        """Yield the messages, or their errors, by message id: a request's after another's."""
        for start in range(0, len(message_ids), MAX_BATCH):
            yield self._batch(message_ids[start : start + MAX_BATCH], fmt)

    def _batch(
        self, message_ids: Sequence[str], fmt: MessageFormat
    ) -> dict[str, Message | GmailError]:
        found: dict[str, Message | GmailError] = {}

        def keep(message_id: str, answer: Message, error: Exception | None) -> None:
            answered = answer if _is_content(answer) else GmailUnavailable(reason=UNREADABLE)
            found[message_id] = answered if error is None else translate(error)

        batch = BatchHttpRequest(callback=keep, batch_uri=self._resources.batch_uri)
        for message_id in message_ids:
            request = self._resources.messages.get(userId=_ME, id=message_id, format=fmt)
            batch.add(request, request_id=message_id)
        with self.exchange.request():
            try:
                batch.execute(http=self._http())
            except (KeyError, ValueError) as error:
                # Google's library raises these for an answer that was cut off.
                raise GmailUnavailable(reason="incomplete_batch") from error
        return found

    def history(self, start_history_id: str, page_token: str | None = None) -> HistoryPage:
        """Return one page of the changes since an id; pass the same id for every page.

        Raises:
            GmailHistoryExpired: the id is too old or unknown.
        """
        request = self._resources.history.list(
            userId=_ME, startHistoryId=start_history_id, pageToken=page_token
        )
        try:
            return cast("HistoryPage", self._execute(request))
        except GmailNotFound as error:
            raise GmailHistoryExpired(status=error.status, reason=error.reason) from error

    def watch(self, topic: str, label_ids: Sequence[str]) -> Watch:
        """Ask Gmail to publish changes to messages with any of these labels, for a week at most.

        Raises:
            GmailForbidden, GmailNotFound: Gmail may not publish to the topic; there is none.
            GmailBadRequest: it is no topic of the OAuth client's project, or no such label.
            GmailConflict: it publishes them to another topic of the same project; stop that first.
        """
        body = {
            "topicName": topic,
            "labelIds": list(label_ids),
            "labelFilterBehavior": "INCLUDE",
        }
        return cast("Watch", self._execute(self._resources.users.watch(userId=_ME, body=body)))

    def stop_watch(self) -> None:
        """Have Gmail publish the mailbox's changes no more, to whatever topic."""
        self._execute(self._resources.users.stop(userId=_ME))

    def list_send_as(self) -> list[SendAs]:
        """Return the addresses the mailbox's owner can write from."""
        answer = self._execute(self._resources.send_as.list(userId=_ME))
        return cast("list[SendAs]", answer.get("sendAs", []))

    def list_labels(self) -> list[Label]:
        """Return Gmail's system labels and the owner's own labels."""
        answer = self._execute(self._resources.labels.list(userId=_ME))
        return cast("list[Label]", answer.get("labels", []))

    def get_label(self, label_id: str) -> Label:
        """Return one label with the number of its messages; raise GmailNotFound if missing."""
        return cast("Label", self._execute(self._resources.labels.get(userId=_ME, id=label_id)))

    def create_label(self, name: str) -> Label:
        """Create a label that Gmail shows in the label list and in the message list.

        Raises:
            GmailConflict: a label of this name (any case) exists.
        """
        body = {
            "name": name,
            "labelListVisibility": "labelShow",
            "messageListVisibility": "show",
        }
        request = self._resources.labels.create(userId=_ME, body=body)
        return cast("Label", self._execute(request))

    def modify_message(
        self, message_id: str, add: Sequence[str] = (), remove: Sequence[str] = ()
    ) -> MessageReference:
        """Add and remove label ids of one message; at least one id, at most 100 of each.

        Raises:
            GmailBadRequest: a label is unknown or not changeable (SENT, DRAFT).
        """
        request = self._resources.messages.modify(
            userId=_ME, id=message_id, body=_label_change(add, remove)
        )
        return cast("MessageReference", self._execute(request))

    def batch_modify(
        self, message_ids: Sequence[str], add: Sequence[str] = (), remove: Sequence[str] = ()
    ) -> None:
        """Add and remove label ids of up to 1000 messages; ids Gmail does not know are ignored."""
        body = {"ids": list(message_ids), **_label_change(add, remove)}
        self._execute(self._resources.messages.batchModify(userId=_ME, body=body))

    def get_thread(self, thread_id: str, fmt: MessageFormat = "full") -> Thread:
        """Return a conversation; Gmail has no format "raw" here."""
        request = self._resources.threads.get(userId=_ME, id=thread_id, format=fmt)
        return cast("Thread", self._execute(request))

    def trash(self, message_id: str) -> MessageReference:
        """Move a message to the trash."""
        request = self._resources.messages.trash(userId=_ME, id=message_id)
        return cast("MessageReference", self._execute(request))

    def untrash(self, message_id: str) -> MessageReference:
        """Take a message out of the trash; Gmail does not put its other labels back."""
        request = self._resources.messages.untrash(userId=_ME, id=message_id)
        return cast("MessageReference", self._execute(request))

    def delete_message(self, message_id: str) -> None:
        """Delete a message for good, without moving it to the trash.

        Raises:
            GmailForbidden: the mailbox has not granted the scope that this needs.
        """
        self._execute(self._resources.messages.delete(userId=_ME, id=message_id))

    def get_attachment(self, message_id: str, attachment_id: str) -> bytes:
        """Return the bytes of an attachment, transfer encoding removed."""
        request = self._resources.attachments.get(
            userId=_ME, messageId=message_id, id=attachment_id
        )
        data: str = self._execute(request).get("data", "")
        return base64.urlsafe_b64decode(data + "=" * (-len(data) % 4))

    def create_draft(self, raw: bytes, thread_id: str = "") -> Draft:
        """Store a draft; Gmail puts it into the thread only if its headers and subject fit."""
        # Uploaded, because Gmail refuses JSON of some MB.
        media = MediaInMemoryUpload(raw, mimetype="message/rfc822")
        request = self._resources.drafts.create(userId=_ME, media_body=media)
        if thread_id:
            add_metadata(request, {"message": {"threadId": thread_id}})
        return cast("Draft", self._execute(request))

    def get_draft(self, draft_id: str) -> DraftMessage:
        """Return a draft with its message, which may be in the trash; GmailNotFound if gone."""
        request = self._resources.drafts.get(userId=_ME, id=draft_id, format="full")
        return cast("DraftMessage", self._execute(request))

    def list_drafts(self, page_token: str | None = None) -> DraftPage:
        """Return one page of all drafts, up to date; `find_drafts`, a search, may lag behind."""
        request = self._resources.drafts.list(userId=_ME, pageToken=page_token, maxResults=500)
        return cast("DraftPage", self._execute(request))

    def find_drafts(self, query: str) -> list[Draft]:
        """Return the drafts that a search matches, 100 at most; the search may lag behind."""
        request = self._resources.drafts.list(userId=_ME, q=query)
        return cast("list[Draft]", self._execute(request).get("drafts", []))

    def send_draft(self, draft_id: str) -> MessageReference:
        """Send a draft, which deletes it; the sent message has a new id.

        Raises:
            GmailNotFound: the draft was sent before, or deleted.
        """
        request = self._resources.drafts.send(userId=_ME, body={"id": draft_id})
        return cast("MessageReference", self._execute(request))

    def delete_draft(self, draft_id: str) -> None:
        """Delete a draft for good."""
        self._execute(self._resources.drafts.delete(userId=_ME, id=draft_id))

    def _execute(self, request: Any) -> dict[str, Any]:
        with self.exchange.request():
            try:
                answer = request.execute(http=self._http(), num_retries=0)
            except UnicodeDecodeError:
                raise GmailUnavailable(reason=UNREADABLE) from None
            is_empty = request.methodId.endswith(_WITHOUT_CONTENT)
            # Taken for a list without rows it would say that all mail, or every label, is gone.
            if answer.strip() if is_empty else not _is_content(answer):
                raise GmailUnavailable(reason=UNREADABLE)
        return {} if is_empty else cast("dict[str, Any]", answer)

    def _http(self) -> Http:
        if not hasattr(self._local, "http"):
            self._local.http = self._open_http()
        return cast("Http", self._local.http)


def _is_content(answer: object) -> bool:
    """Say whether Gmail itself wrote it: Google's library hands on whatever comes with a 200."""
    return isinstance(answer, dict) and bool(answer)


def _label_change(add: Sequence[str], remove: Sequence[str]) -> dict[str, list[str]]:
    return {"addLabelIds": list(add), "removeLabelIds": list(remove)}
