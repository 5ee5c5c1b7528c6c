"""The simulator's entry point: returns the answer to a request, over one shared file."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from mail.gmail.simulator import (
    drafts,
    faults,
    history,
    incoming,
    labels,
    messages,
    oauth,
    push,
    quota,
    send_as,
    threads,
)
from mail.gmail.simulator.answer import Answer, ApiError, Request, invalid_argument
from mail.gmail.simulator.batch import answer_batch, is_batch
from mail.gmail.simulator.call import Call, Handler, Json
from mail.gmail.simulator.discovery import Method, check_body, find_method, read_query
from mail.gmail.simulator.faults import AnswerLost, Fault
from mail.gmail.simulator.incoming import NEW_MAIL, ImportResult
from mail.gmail.simulator.labels import require_known
from mail.gmail.simulator.mailbox import Mailbox
from mail.gmail.simulator.partial import select
from mail.gmail.simulator.quota import Quota
from mail.gmail.simulator.store import Store
from mail.gmail.simulator.upload import as_plain_request

_RESOURCES = (messages, incoming, threads, labels, drafts, history)
_READERS: dict[str, Handler] = {
    name: handler for module in (*_RESOURCES, send_as) for name, handler in module.READERS.items()
}
_WRITERS: dict[str, Handler] = {
    name: handler for module in _RESOURCES for name, handler in module.WRITERS.items()
}


class GmailSimulator:
    """Gmail's REST API over one local file; any number of processes may open the same one."""

    def __init__(self, path: Path | str) -> None:
        self._store = Store(Path(path))

    # Serving

    def answer(
        self, request: Request, *, address: str, scopes: Collection[str] | None = None
    ) -> Answer:
        """Return the answer to a request made for the owner of a mailbox.

        `scopes` are what the owner has granted; None: everything.

        Raises:
            AnswerLost: a fault was ordered; the request may have taken effect all the same.
        """
        try:
            if is_batch(request):
                return answer_batch(
                    request, lambda part: self.answer(part, address=address, scopes=scopes)
                )
            result = self._perform(request, address.lower(), scopes)
        except ApiError as error:
            return Answer(error.status, error.body(), error.headers)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                raise
            busy = ApiError(503, "backendError", "The store is busy; try again later.")
            return Answer(busy.status, busy.body())
        if result is None:
            return Answer(HTTPStatus.NO_CONTENT, b"")
        return Answer(HTTPStatus.OK, json.dumps(result).encode())

    def _perform(
        self, request: Request, address: str, scopes: Collection[str] | None
    ) -> Json | None:
        request = as_plain_request(request)
        verb, path, query_text = _request_line(request)
        method, path_parameters = find_method(verb, path)
        if scopes is not None and not method.scopes & frozenset(scopes):
            raise ApiError(403, "insufficientPermissions", "Insufficient Permission")
        fault = faults.take(self._store, address, method.name)
        if fault and fault.loses_request:
            raise AnswerLost("timed out")
        if fault and not fault.loses_answer:
            raise fault.error()
        quota.spend(self._store, address, method.name)
        call = _read_call(method, path_parameters, query_text, request)
        if call.path["userId"].lower() not in ("me", address):
            raise ApiError(403, "forbidden", f"Delegation denied for {address}")
        result = self._dispatch(method, call, address)
        if fault:
            raise AnswerLost("timed out")
        fields = parse_qs(query_text).get("fields")
        return select(result, fields[0]) if fields and result is not None else result

    def _dispatch(self, method: Method, call: Call, address: str) -> Json | None:
        reader = _READERS.get(method.name)
        if reader:
            with self._store.read() as connection:
                if mailbox := Mailbox.open(connection, address):
                    return reader(mailbox, call)
        handler = reader or _WRITERS.get(method.name)
        if handler is None:
            raise ApiError(501, "notImplemented", f"The simulator does not implement {method.name}")
        # The first request for a mailbox creates it, even a request that only reads.
        with self._store.write() as connection:
            return handler(Mailbox.ensure(connection, address), call)

    # Seeding

    def import_message(
        self,
        address: str,
        raw: bytes,
        *,
        internal_date: datetime | None = None,
        labels: Collection[str] = NEW_MAIL,
    ) -> ImportResult:
        """Import a message, creating the mailbox if missing; the same bytes again change nothing.

        internalDate is the given moment, else the Date header, else the latest Received
        header, else now.

        Raises:
            ApiError: 400, a label id the mailbox does not have.
        """
        message = incoming.prepare(raw)
        with self._store.write() as connection:
            mailbox = Mailbox.ensure(connection, address)
            require_known(mailbox, labels)
            return incoming.store_once(mailbox, message, labels, internal_date)

    def import_messages(
        self, address: str, raws: Iterable[bytes], *, labels: Collection[str] = NEW_MAIL
    ) -> Iterator[ImportResult]:
        """Import thousands of messages as import_message does one; consume the iterator to its end.

        Results come in the order of the messages; each batch of 200 is durable when its
        first result appears.
        """
        return incoming.import_messages(self._store, address, raws, labels=labels)

    # Access, pushes and faults

    def access_token(self, address: str) -> str:
        """Return the bearer token that opens a mailbox over HTTP; the mailbox is made if missing."""
        with self._store.write() as connection:
            mailbox = Mailbox.ensure(connection, address)
            row = connection.execute(
                "SELECT access_token FROM mailbox WHERE pk = ?", (mailbox.pk,)
            ).fetchone()
        return str(row["access_token"])

    def answer_with_token(self, request: Request, access_token: str) -> Answer:
        """Return the answer to a request that carries a bearer token.

        Raises:
            ApiError: 401, the token opens no mailbox.
            AnswerLost: a fault was ordered; the request may have taken effect all the same.
        """
        with self._store.read() as connection:
            row = connection.execute(
                "SELECT address FROM mailbox WHERE access_token = ?", (access_token,)
            ).fetchone()
        if row is not None:
            return self.answer(request, address=row["address"])
        grant = oauth.grant_of(self._store, access_token)
        if grant is None:
            raise ApiError(401, "authError", "Invalid Credentials")
        address, scopes = grant
        return self.answer(request, address=address, scopes=scopes)

    def answer_oauth(self, request: Request) -> Answer | None:
        """Return the answer of an OAuth endpoint or of the certificates; None for other paths."""
        return push.answer_certificates(self._store, request) or oauth.answer_oauth(
            self._store, request
        )

    def subscribe(self, topic: str, endpoint: str, *, audience: str, service_account: str) -> None:
        """Let `deliver_pushes` post to this address what watches publish to the topic."""
        push.subscribe(
            self._store, topic, endpoint, audience=audience, service_account=service_account
        )

    def deliver_pushes(self, *, copies: int = 1, lose: bool = False) -> list[int]:
        """Push what waits, repeated or dropped on demand, and return the statuses."""
        return push.deliver(self._store, copies=copies, lose=lose)

    def waiting_pushes(self) -> list[tuple[str, int]]:
        """Return address and history id of each notification that was not acknowledged."""
        return [(row["address"], row["history_id"]) for row in push.waiting(self._store)]

    def sign_push(
        self, audience: str, service_account: str, claims: Mapping[str, Any] | None = None
    ) -> str:
        """Return a token as Pub/Sub signs it for this audience; `claims` replace its own."""
        return push.sign(self._store, audience, service_account, claims)

    def find(self, key_id: str) -> str | None:
        """Return the certificate of a signing key, which the webhook would fetch from Google."""
        return push.certificates(self._store).get(key_id)

    def revoke_grants(self, address: str) -> None:
        """Revoke the owner's grants to a mailbox, so that a refresh answers invalid_grant."""
        oauth.revoke_all(self._store, address)

    def expire_access_tokens(self, address: str) -> None:
        """Expire every OAuth access token to a mailbox now."""
        oauth.expire_access(self._store, address)

    def add_alias(self, address: str, alias: str, *, verified: bool = True) -> None:
        """Give the owner of a mailbox another address to write from."""
        with self._store.write() as connection:
            mailbox = Mailbox.ensure(connection, address)
            send_as.add_alias(mailbox, alias, verified=verified)

    def addresses(self) -> list[str]:
        """Return the addresses of all mailboxes, in order."""
        with self._store.read() as connection:
            rows = connection.execute("SELECT address FROM mailbox ORDER BY address").fetchall()
        return [row["address"] for row in rows]

    def order_fault(
        self, fault: Fault, *, method: str = "*", address: str | None = None, times: int = 1
    ) -> None:
        """Make the next ``times`` requests meet a fault, in whichever process they arrive.

        ``method`` is a name such as ``messages.get``, or ``*``; ``address`` None is every mailbox.
        """
        faults.order(self._store, fault, method=method, address=address, times=times)

    def delay_search(self, seconds: int, *, address: str | None = None) -> None:
        """Let searches find a message only when it is this old, as if Gmail's index lagged."""
        faults.delay_search(self._store, seconds, address=address)

    def clear_faults(self) -> None:
        """Forget the faults that no request has met yet."""
        faults.clear(self._store)

    def order_quota(self, limits: Quota | None) -> None:
        """Count quota units from now on and refuse requests beyond the limits; None stops that."""
        quota.order(self._store, limits)

    def expire_history(self, address: str) -> None:
        """Make every history id handed out so far too old: history.list answers 404."""
        with self._store.write() as connection:
            Mailbox.ensure(connection, address).expire_history()


def _request_line(request: Request) -> tuple[str, str, str]:
    """Return verb, path and query; a client sends a long GET as a POST with an override header."""
    parts = urlsplit(request.uri)
    if request.headers.get("x-http-method-override") == "GET":
        return "GET", parts.path, request.body.decode("utf-8", "replace")
    return request.verb, parts.path, parts.query


def _read_call(
    method: Method, path_parameters: Mapping[str, str], query_text: str, request: Request
) -> Call:
    query = read_query(method, parse_qs(query_text, keep_blank_values=True))
    body: Json = {}
    if request.body and method.verb != "GET":
        try:
            body = json.loads(request.body)
        except (ValueError, RecursionError):
            raise invalid_argument("Invalid JSON payload received. Parse error.") from None
    check_body(method, body)
    return Call({name: unquote(text) for name, text in path_parameters.items()}, query, body)
