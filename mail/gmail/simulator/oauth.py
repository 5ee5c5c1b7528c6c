"""Google's OAuth endpoints over the simulator's mailboxes: consent page, tokens, revocation.

As at Google, a code is valid once and for a short time, an access token expires after an hour, and
a revoked grant answers ``invalid_grant``. Any client id and secret are accepted.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import sqlite3
import time
from collections.abc import Iterable, Mapping
from html import escape
from http import HTTPStatus
from urllib.parse import parse_qsl, urlencode, urlsplit

from mail.gmail.simulator import faults
from mail.gmail.simulator.answer import Answer, ApiError, Request
from mail.gmail.simulator.mailbox import Mailbox
from mail.gmail.simulator.store import Store

AUTH_PATH, TOKEN_PATH, REVOKE_PATH = "/o/oauth2/v2/auth", "/token", "/revoke"
ACCESS_SECONDS = 3600
_CODE_SECONDS = 600
# How a Workspace's policy asks for a new sign-in.
_SUBTYPES = ("invalid_rapt", "rapt_required")
_NEEDED = ("client_id", "redirect_uri", "response_type", "scope")
_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Gmail simulator: consent</title>
<style>body{{font:16px system-ui;max-width:32rem;margin:4rem auto;padding:0 1rem}}
label{{display:block;margin:.5rem 0}}button{{font:inherit;padding:.5rem 1.5rem;margin:1rem .5rem 0 0}}
</style></head><body>
<h1>An application asks for access</h1>
<p>This is the local Gmail simulator, not Google.</p>
<form method="post">
<label>Account <select name="account">{accounts}</select></label>
<fieldset><legend>It would be able to use</legend>{scopes}</fieldset>
<button name="answer" value="allow">Allow</button>
<button name="answer" value="deny">Cancel</button>
</form></body></html>
"""

Form = Mapping[str, str]


class OAuthError(Exception):
    """A refusal of the token endpoint."""

    def __init__(
        self,
        code: str,
        description: str,
        status: int = HTTPStatus.BAD_REQUEST,
        *,
        subtype: str = "",
    ) -> None:
        super().__init__(description)
        self.code = code
        self.description = description
        self.status = status
        self.subtype = subtype


def answer_oauth(store: Store, request: Request) -> Answer | None:
    """Return the answer of one of the three endpoints, None for any other path."""
    parts = urlsplit(request.uri)
    query = dict(parse_qsl(parts.query))
    form = dict(parse_qsl(request.body.decode("utf-8", "replace")))
    try:
        if parts.path == AUTH_PATH:
            return _consent(store, request.verb, query, form)
        if parts.path == TOKEN_PATH and request.verb == "POST":
            return _json(_token(store, form))
        if parts.path == REVOKE_PATH and request.verb == "POST":
            return _json(_revoke(store, form.get("token") or query.get("token", "")))
    except OAuthError as error:
        body = {"error": error.code, "error_description": error.description}
        if error.subtype:
            body["error_subtype"] = error.subtype
        return _json(body, error.status)
    return None


def grant_of(store: Store, access_token: str) -> tuple[str, frozenset[str]] | None:
    """Return the mailbox and scopes of an OAuth access token; None if it is not valid any more."""
    with store.read() as connection:
        row = connection.execute(
            "SELECT m.address, g.scopes FROM oauth_access a JOIN oauth_grant g ON g.pk = a.grant_pk"
            " JOIN mailbox m ON m.pk = g.mailbox"
            " WHERE a.token = ? AND a.expires > ? AND g.revoked = 0",
            (access_token, time.time()),
        ).fetchone()
    return None if row is None else (row["address"], frozenset(row["scopes"].split()))


def revoke_all(store: Store, address: str) -> None:
    """Withdraw every grant to a mailbox, as its owner can on Google's account page."""
    with store.write() as connection:
        connection.execute(
            "UPDATE oauth_grant SET revoked = 1 WHERE mailbox ="
            " (SELECT pk FROM mailbox WHERE address = ?)",
            (address.lower(),),
        )


def expire_access(store: Store, address: str) -> None:
    """Expire the access tokens to a mailbox now; the grants remain."""
    with store.write() as connection:
        connection.execute(
            "UPDATE oauth_access SET expires = 0 WHERE grant_pk IN (SELECT g.pk FROM oauth_grant g"
            " JOIN mailbox m ON m.pk = g.mailbox WHERE m.address = ?)",
            (address.lower(),),
        )


def _consent(store: Store, verb: str, query: Form, form: Form) -> Answer:
    missing = [name for name in _NEEDED if not query.get(name)]
    if missing or query["response_type"] != "code":
        raise OAuthError(
            "invalid_request", f"Missing: {', '.join(missing) or 'response_type=code'}"
        )
    if verb == "GET":
        with store.read() as connection:
            rows = connection.execute("SELECT address FROM mailbox ORDER BY address").fetchall()
        addresses = [row["address"] for row in rows]
        page = _consent_page(addresses, query["scope"].split(), query.get("login_hint", ""))
        return Answer(HTTPStatus.OK, page.encode(), {"content-type": "text/html; charset=utf-8"})
    outcome = {"error": "access_denied"}
    if form.get("answer") == "allow":
        granted = [scope for scope in query["scope"].split() if scope in form]
        outcome = {"code": _new_code(store, query, form, granted), "scope": " ".join(granted)}
    back = urlencode({"state": query.get("state", ""), **outcome})
    return Answer(HTTPStatus.FOUND, b"", {"location": f"{query['redirect_uri']}?{back}"})


def _new_code(store: Store, query: Form, form: Form, granted: list[str]) -> str:
    code = f"4/{secrets.token_urlsafe(24)}"
    with store.write() as connection:
        connection.execute(
            "INSERT INTO oauth_grant (mailbox, client_id, scopes, code, code_expires,"
            " redirect_uri, challenge) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                Mailbox.ensure(connection, form.get("account", "")).pk,
                query["client_id"],
                " ".join(granted),
                code,
                time.time() + _CODE_SECONDS,
                query["redirect_uri"],
                query.get("code_challenge", ""),
            ),
        )
    return code


def _token(store: Store, form: Form) -> dict[str, object]:
    if not form.get("client_id") or not form.get("client_secret"):
        raise OAuthError(
            "invalid_client", "The OAuth client was not found.", HTTPStatus.UNAUTHORIZED
        )
    kinds = {"authorization_code": _by_code, "refresh_token": _by_refresh_token}
    find = kinds.get(form.get("grant_type", ""))
    if find is None:
        raise OAuthError("unsupported_grant_type", f"Invalid grant_type: {form.get('grant_type')}")
    with store.read() as connection:
        grant = find(connection, form)
    _meet_fault(store, grant["address"], "oauth.token")
    access_token = f"ya29.{secrets.token_urlsafe(32)}"
    answer: dict[str, object] = {
        "access_token": access_token,
        "expires_in": ACCESS_SECONDS - 1,
        "scope": grant["scopes"],
        "token_type": "Bearer",
    }
    with store.write() as connection:
        if form["grant_type"] == "authorization_code":
            answer["refresh_token"] = f"1//{secrets.token_urlsafe(32)}"
            connection.execute(
                "UPDATE oauth_grant SET refresh_token = ?, code = NULL WHERE pk = ?",
                (answer["refresh_token"], grant["pk"]),
            )
        connection.execute(
            "INSERT INTO oauth_access VALUES (?, ?, ?)",
            (access_token, grant["pk"], time.time() + ACCESS_SECONDS),
        )
    return answer


_GRANT = (
    "SELECT g.*, m.address FROM oauth_grant g JOIN mailbox m ON m.pk = g.mailbox"
    " WHERE g.revoked = 0 AND g.client_id = ? AND "
)


def _by_code(connection: sqlite3.Connection, form: Form) -> sqlite3.Row:
    found: sqlite3.Row | None = connection.execute(
        f"{_GRANT} g.code = ? AND g.code_expires > ?",
        (form["client_id"], form.get("code", ""), time.time()),
    ).fetchone()
    if found is None or found["redirect_uri"] != form.get("redirect_uri"):
        raise OAuthError("invalid_grant", "Malformed auth code.")
    digest = hashlib.sha256(form.get("code_verifier", "").encode()).digest()
    challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
    if found["challenge"] and found["challenge"] != challenge:
        raise OAuthError("invalid_grant", "Invalid code verifier.")
    return found


def _by_refresh_token(connection: sqlite3.Connection, form: Form) -> sqlite3.Row:
    found: sqlite3.Row | None = connection.execute(
        f"{_GRANT} g.refresh_token = ?", (form["client_id"], form.get("refresh_token", ""))
    ).fetchone()
    if found is None:
        raise OAuthError("invalid_grant", "Token has been expired or revoked.")
    return found


def _meet_fault(store: Store, address: str, method: str) -> None:
    fault = faults.take(store, address, method)
    if fault is not None:
        error: ApiError = fault.error()
        if error.reason in _SUBTYPES:
            description = f"reauth related error ({error.reason})"
            raise OAuthError("invalid_grant", description, error.status, subtype=error.reason)
        raise OAuthError(error.reason, error.message, error.status)


def _revoke(store: Store, token: str) -> dict[str, object]:
    _meet_fault(store, "", "oauth.revoke")
    with store.write() as connection:
        changed = connection.execute(
            # As at Google, revoking one token revokes every grant of the person to this
            # application.
            "UPDATE oauth_grant SET revoked = 1 WHERE revoked = 0 AND (mailbox, client_id) IN ("
            " SELECT mailbox, client_id FROM oauth_grant WHERE refresh_token = :token"
            " OR pk IN (SELECT grant_pk FROM oauth_access WHERE token = :token))",
            {"token": token},
        ).rowcount
    if not changed:
        raise OAuthError("invalid_token", "Token expired or revoked")
    return {}


def _json(body: dict[str, object] | dict[str, str], status: int = HTTPStatus.OK) -> Answer:
    return Answer(status, json.dumps(body).encode())


def _consent_page(addresses: Iterable[str], scopes: Iterable[str], preselected: str) -> str:
    """Return the page: the mailboxes to choose from, and the scopes to untick."""
    accounts = "".join(
        f"<option{' selected' if address == preselected else ''}>{escape(address)}</option>"
        for address in addresses
    )
    boxes = "".join(
        f'<label><input type="checkbox" name="{escape(scope)}" checked> {escape(scope)}</label>'
        for scope in scopes
    )
    return _PAGE.format(accounts=accounts, scopes=boxes)
