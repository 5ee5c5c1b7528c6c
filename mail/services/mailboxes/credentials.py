"""The OAuth tokens of mailboxes: stored encrypted, refreshed by one process at a time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from django.utils import timezone

from jobs.queue import acquire_lock, release_lock
from mail.conf import gmail_api_base, gmail_simulator_store, oauth_client, uses_google
from mail.gmail import oauth
from mail.gmail.client import GmailClient
from mail.gmail.connect import google_client, simulator_client
from mail.gmail.errors import REFRESH_IN_PROGRESS, GmailNeedsReauth, GmailUnavailable
from mail.gmail.oauth import FULL_SCOPE, AccessToken, Grant
from mail.models import MailAccount, MailCredential
from mail.services.mailboxes.connection import require_reauth
from tenants.encryption import decrypt_field, encrypt_field
from tenants.scope import firm_scope

# A token is refreshed this long before it expires.
_EARLY = timedelta(minutes=5)
# Longer than a refresh waits for Google's token endpoint, so that the lock outlasts it.
_LOCK_SECONDS = 3 * oauth.TIMEOUT_SECONDS
_POLL_SECONDS = 0.1
# Short, because a job that waits for another's refresh occupies a thread of its worker.
_WAIT_SECONDS = 5


def store_grant(account: MailAccount, grant: Grant) -> None:
    """Store a grant, replacing an earlier one. Must run in the firm's scope."""
    MailCredential.objects.filter(account=account).delete()
    credential = MailCredential(
        firm_id=account.firm_id,
        account=account,
        expires_at=grant.access.expires_at,
        scopes=sorted(grant.scopes),
    )
    encrypt_field(credential, "refresh_token", grant.refresh_token)
    encrypt_field(credential, "access_token", grant.access.value)
    credential.save()


def may_delete_for_good(account: MailAccount) -> bool:
    """Say whether Gmail lets Mailroom delete the mailbox's mail for good. Must run in the scope.

    A local mailbox needs no permission, so everything is allowed.
    """
    if not uses_google():
        return True
    granted = MailCredential.objects.filter(account=account).values_list("scopes", flat=True)
    return any(FULL_SCOPE in scopes for scopes in granted)


class StoredToken:
    """The access token of one account, shared by all processes."""

    def __init__(self, account: MailAccount) -> None:
        self._account = account

    def fresh(self, refused: str | None) -> AccessToken:
        """Return the stored token, or a new one if it is about to expire or is the one `refused`.

        Raises:
            GmailNeedsReauth: Google has withdrawn the permission, or there is no credential.
            GmailMisconfigured: Google refuses this service's OAuth client.
            GmailUnavailable: Google's token endpoint does not answer properly.
        """
        found = _usable(self._load(), refused)
        if found is not None:
            return found
        with self._refresh_lock():
            credential = self._load()
            return _usable(credential, refused) or self._refresh(credential)

    def _load(self) -> MailCredential:
        with firm_scope(self._account.firm_id):
            found = MailCredential.objects.filter(account_id=self._account.pk).first()
        if found is None:
            error = GmailNeedsReauth(reason="no_credential")
            require_reauth(self._account, None, error)
            raise error
        credential: MailCredential = found
        return credential

    def _refresh(self, credential: MailCredential) -> AccessToken:
        try:
            access, refresh_token = oauth.refresh(
                oauth_client(), decrypt_field(credential, "refresh_token")
            )
        except GmailNeedsReauth as error:
            require_reauth(self._account, credential, error)
            raise
        before = credential.refresh_token
        encrypt_field(credential, "access_token", access.value)
        encrypt_field(credential, "refresh_token", refresh_token)
        with firm_scope(self._account.firm_id):
            # The filter by `before` makes sure that a grant stored meanwhile is not overwritten.
            MailCredential.objects.filter(pk=credential.pk, refresh_token=before).update(
                access_token=credential.access_token,
                refresh_token=credential.refresh_token,
                expires_at=access.expires_at,
                refreshed_at=timezone.now(),
            )
        return access

    @contextmanager
    def _refresh_lock(self) -> Iterator[None]:
        key = f"gmail-token:{self._account.pk}"
        deadline = time.monotonic() + _WAIT_SECONDS
        while (lock := acquire_lock(key, _LOCK_SECONDS, firm=self._account.firm_id)) is None:
            if time.monotonic() > deadline:
                raise GmailUnavailable(reason=REFRESH_IN_PROGRESS)
            time.sleep(_POLL_SECONDS)
        try:
            yield
        finally:
            release_lock(lock)


def _usable(credential: MailCredential, refused: str | None) -> AccessToken | None:
    """Return the stored token if it is valid for some minutes and is not the refused one."""
    expires_at = credential.expires_at
    if expires_at is None or expires_at <= timezone.now() + _EARLY:
        return None
    value = decrypt_field(credential, "access_token")
    return AccessToken(value, expires_at) if value and value != refused else None


def gmail_of(account: MailAccount) -> GmailClient:
    """Return a client for the account's mailbox, which only the calling thread may use."""
    if uses_google():
        return google_client(StoredToken(account), endpoint=gmail_api_base())
    return simulator_client(account.address, gmail_simulator_store())
