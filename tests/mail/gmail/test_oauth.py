"""Google's OAuth as the product uses it, against the simulator over HTTP."""

from __future__ import annotations

import json
from urllib.parse import parse_qs, urlencode, urlsplit

import httplib2
import pytest

from mail.gmail import errors
from mail.gmail.client import GmailClient
from mail.gmail.oauth import (
    AccessToken,
    OAuthClient,
    exchange_code,
    refresh,
    request_consent,
    revoke,
)
from mail.gmail.service import gmail_resources
from mail.gmail.simulator.faults import Fault
from tests.mail.gmail.mailbox_kit import ADDRESS
from tests.mail.google_kit import MODIFY, REDIRECT_URI, answer_consent, serving

pytestmark = pytest.mark.req("M-01", "M-03")

READONLY = "https://www.googleapis.com/auth/gmail.readonly"


@pytest.fixture
def server(simulator, monkeypatch):
    monkeypatch.setenv("OAUTHLIB_INSECURE_TRANSPORT", "1")
    simulator.access_token(ADDRESS)
    with serving(simulator) as server:
        yield server


@pytest.fixture
def client(server) -> OAuthClient:
    return OAuthClient(
        "id.example",
        "client-secret-canary",
        auth_uri=f"{server.url}/o/oauth2/v2/auth",
        token_uri=f"{server.url}/token",
        revoke_uri=f"{server.url}/revoke",
    )


def grant(client, scopes=(MODIFY,)):
    consent = request_consent(client, REDIRECT_URI, list(scopes))
    code = answer_consent(consent.url, ADDRESS, scopes)["code"]
    return exchange_code(client, REDIRECT_URI, code, consent.code_verifier)


def gmail(server, token: AccessToken) -> GmailClient:
    class WithToken(httplib2.Http):
        def request(self, uri, method="GET", body=None, headers=None, **rest):
            headers = {**(headers or {}), "authorization": f"Bearer {token.value}"}
            return super().request(uri, method, body, headers, **rest)

    return GmailClient(lambda: WithToken(timeout=10), resources=gmail_resources(server.url))


def test_the_consent_asks_for_offline_access_with_pkce_and_a_state(client):
    consent = request_consent(client, REDIRECT_URI, [MODIFY], address=ADDRESS)
    asked = {name: values[0] for name, values in parse_qs(urlsplit(consent.url).query).items()}
    assert asked["access_type"] == "offline"
    assert asked["prompt"] == "consent"
    assert asked["code_challenge_method"] == "S256"
    assert asked["scope"] == MODIFY
    assert asked["login_hint"] == ADDRESS
    assert asked["state"] == consent.state
    assert consent.code_verifier not in consent.url
    other = request_consent(client, REDIRECT_URI, [MODIFY])
    assert (other.state, other.code_verifier) != (consent.state, consent.code_verifier)


def test_a_grant_opens_the_mailbox(client, server):
    given = grant(client)
    assert given.scopes == {MODIFY}
    assert given.refresh_token
    assert gmail(server, given.access).profile()["emailAddress"] == ADDRESS


def test_secrets_are_in_no_representation(client):
    given = grant(client)
    shown = repr([client, given, given.access, request_consent(client, REDIRECT_URI, [MODIFY])])
    for secret in (client.client_secret, given.refresh_token, given.access.value):
        assert secret not in shown


def test_a_code_is_good_once(client):
    consent = request_consent(client, REDIRECT_URI, [MODIFY])
    code = answer_consent(consent.url, ADDRESS)["code"]
    exchange_code(client, REDIRECT_URI, code, consent.code_verifier)
    with pytest.raises(errors.GmailNeedsReauth):
        exchange_code(client, REDIRECT_URI, code, consent.code_verifier)


def test_a_stolen_code_is_worth_nothing_without_its_verifier(client):
    consent = request_consent(client, REDIRECT_URI, [MODIFY])
    code = answer_consent(consent.url, ADDRESS)["code"]
    with pytest.raises(errors.GmailNeedsReauth):
        exchange_code(client, REDIRECT_URI, code, "v" * 60)


def test_a_person_may_grant_less(client, server):
    consent = request_consent(client, REDIRECT_URI, [MODIFY, READONLY])
    code = answer_consent(consent.url, ADDRESS, [READONLY])["code"]
    given = exchange_code(client, REDIRECT_URI, code, consent.code_verifier)
    assert given.scopes == {READONLY}
    reader = gmail(server, given.access)
    reader.profile()
    with pytest.raises(errors.GmailForbidden) as refused:
        reader.create_label("Boats")
    assert refused.value.reason == "insufficientPermissions"


def test_refresh_gives_another_token_and_keeps_the_refresh_token(client, server):
    given = grant(client)
    access, kept = refresh(client, given.refresh_token)
    assert access.value != given.access.value
    assert kept == given.refresh_token
    assert gmail(server, access).profile()["emailAddress"] == ADDRESS


def test_a_withdrawn_grant_opens_nothing_and_is_not_refreshed(client, server):
    given = grant(client)
    revoke(client, given.refresh_token)
    with pytest.raises(errors.GmailAuthExpired):
        gmail(server, given.access).profile()
    with pytest.raises(errors.GmailNeedsReauth):
        refresh(client, given.refresh_token)
    revoke(client, given.refresh_token)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (Fault(401, "invalid_client"), errors.GmailMisconfigured),
        (Fault(400, "unauthorized_client"), errors.GmailMisconfigured),
        (Fault(400, "invalid_grant"), errors.GmailNeedsReauth),
        (Fault(400, "invalid_rapt"), errors.GmailNeedsReauth),
        (Fault(400, "rapt_required"), errors.GmailNeedsReauth),
        (Fault(400, "admin_policy_enforced"), errors.GmailNeedsReauth),
        (Fault(400, "policy_enforced"), errors.GmailNeedsReauth),
        (Fault(400, "invalid_scope"), errors.GmailAuthExpired),
    ],
)
def test_refusals_of_the_token_endpoint_are_told_apart(client, simulator, fault, expected):
    given = grant(client)
    simulator.order_fault(fault, method="oauth.token")
    with pytest.raises(errors.GmailError) as refused:
        refresh(client, given.refresh_token)
    assert type(refused.value) is expected
    assert given.refresh_token not in str(refused.value)


def test_a_token_endpoint_that_is_not_there_is_an_outage():
    gone = OAuthClient("id", "secret", token_uri="http://127.0.0.1:9/token")
    with pytest.raises(errors.GmailUnavailable):
        refresh(gone, "1//refresh")
    with pytest.raises(errors.GmailUnavailable):
        revoke(OAuthClient("id", "secret", revoke_uri="http://127.0.0.1:9/revoke"), "token")


@pytest.mark.parametrize("status", [403, 404, 408, 429, 500])
def test_a_grant_counts_as_withdrawn_only_where_google_says_so(client, simulator, status):
    given = grant(client)
    simulator.order_fault(Fault(status), method="oauth.revoke")
    with pytest.raises(errors.GmailUnavailable):
        revoke(client, given.refresh_token)
    assert refresh(client, given.refresh_token)[1] == given.refresh_token


def test_the_consent_page_shows_what_is_asked_for_and_takes_a_refusal(client, server):
    consent = request_consent(client, REDIRECT_URI, [MODIFY])
    _, page = httplib2.Http().request(consent.url)
    assert MODIFY in page.decode()
    assert ADDRESS in page.decode()
    http = httplib2.Http()
    http.follow_redirects = False
    response, _ = http.request(consent.url, "POST", body=urlencode({"answer": "deny"}))
    assert parse_qs(urlsplit(response["location"]).query)["error"] == ["access_denied"]


@pytest.mark.parametrize(
    ("path", "body", "error"),
    [
        ("/token", {}, "invalid_client"),
        ("/token", {"client_id": "a", "client_secret": "b"}, "unsupported_grant_type"),
        ("/revoke", {"token": "unknown"}, "invalid_token"),
        ("/o/oauth2/v2/auth", {}, "invalid_request"),
    ],
)
def test_requests_that_say_too_little_are_refused(server, path, body, error):
    response, content = httplib2.Http().request(server.url + path, "POST", body=urlencode(body))
    assert response.status in (400, 401)
    assert json.loads(content)["error"] == error


def test_a_store_of_the_first_version_learns_of_grants(tmp_path):
    import sqlite3

    from mail.gmail.simulator import store
    from mail.gmail.simulator.api import GmailSimulator

    path = tmp_path / "old.sqlite3"
    old = sqlite3.connect(path)
    for statement in store._SCHEMA.split(";\n"):
        old.execute(statement)
    old.execute("PRAGMA user_version = 1")
    old.close()
    simulator = GmailSimulator(path)
    simulator.add_alias(ADDRESS, "ada@other.example")
    simulator.revoke_grants(ADDRESS)


PAGE = b"<html>Sign in to the network</html>"


@pytest.fixture
def answered(monkeypatch):
    """Let something other than Google, such as a proxy, answer all requests."""

    def with_page(status, content):
        answer = httplib2.Response({"content-type": "text/html; charset=utf-8"})
        answer.status = status
        monkeypatch.setattr(httplib2.Http, "request", lambda *_, **__: (answer, content))

    return with_page


@pytest.mark.parametrize(
    ("status", "content"),
    [(200, PAGE), (200, b"[1]"), (403, PAGE), (400, b"<p>invalid_grant? See our help</p>")],
)
def test_a_page_in_place_of_the_token_is_an_outage(client, answered, status, content):
    answered(status, content)
    with pytest.raises(errors.GmailUnavailable) as raised:
        refresh(client, "1//refresh")
    assert raised.value.reason == "unreadable_answer"


@pytest.mark.parametrize("status", [200, 400])
def test_a_page_revokes_nothing(client, answered, status):
    answered(status, PAGE)
    with pytest.raises(errors.GmailUnavailable):
        revoke(client, "1//refresh")
