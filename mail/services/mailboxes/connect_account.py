"""Connects a mailbox with its owner's permission, and disconnects it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.utils import timezone

from jobs.queue import enqueue
from mail.conf import gmail_api_base, oauth_client
from mail.errors import ConsentUnusable, WrongMailbox, WrongState
from mail.gmail import oauth
from mail.gmail.connect import google_client
from mail.gmail.errors import FAILED_PRECONDITION, GmailUnavailable
from mail.gmail.oauth import REQUIRED_SCOPES, AccessToken, Grant
from mail.models import (
    Connection,
    EventType,
    MailAccount,
    MailCredential,
    Mode,
)
from mail.services.mailboxes.accounts import has_owner, in_firm_scope, own_aliases
from mail.services.mailboxes.catch_up import mail_was_deleted, request_reading
from mail.services.mailboxes.change import cancel_waiting, lock_mailbox
from mail.services.mailboxes.connection import pace_mailboxes, resume_mailbox
from mail.services.mailboxes.credentials import store_grant
from mail.services.mailboxes.modes import suggest_if_active_elsewhere
from mail.services.operation import audit, locked_row
from mail.services.timelines.events import record_event
from tenants.audit import SERVICE, Actor, record_operation
from tenants.encryption import decrypt_field
from tenants.scope import all_firms, firm_scope


@dataclass(frozen=True, repr=False)
class Consent:
    """A grant, with the address and aliases of the mailbox that it opens."""

    grant: Grant
    address: str
    aliases: list[str]


class _Granted:
    """The access token of a grant that is not stored yet."""

    def __init__(self, access: AccessToken) -> None:
        self._access = access

    def fresh(self, refused: str | None) -> AccessToken:
        """Return the token, even if Gmail refused it."""
        return self._access


def take_consent(redirect_uri: str, code: str, code_verifier: str) -> Consent:
    """Exchange the consent page's code for the consent. Calls Google: not in a transaction.

    Raises:
        ConsentUnusable: the person granted too little, or the account they chose has no Gmail.
        GmailError: Google refused the code, or did not answer.
    """
    grant = oauth.exchange_code(oauth_client(), redirect_uri, code, code_verifier)
    missing = sorted(set(REQUIRED_SCOPES) - grant.scopes)
    if missing:
        raise ConsentUnusable(f"Google did not grant {', '.join(missing)}: leave its box ticked.")
    if not grant.refresh_token:
        raise ConsentUnusable("Google gave no refresh token; remove Mailroom's access, then retry.")
    gmail = google_client(_Granted(grant.access), endpoint=gmail_api_base())
    try:
        address = gmail.profile()["emailAddress"].lower()
    except GmailUnavailable as error:
        # "Mail service not enabled": a Google account need not have a mailbox.
        if error.reason != FAILED_PRECONDITION:
            raise
        raise ConsentUnusable("This Google account has no Gmail: choose another one.") from error
    return Consent(grant, address, own_aliases(address, gmail.list_send_as()))


def connect_account(
    firm_id: int, consent: Consent, *, by: Actor, expected: MailAccount | None = None
) -> MailAccount:
    """Connect the mailbox in the firm, new or known, and have it synced.

    A new mailbox suggests only, and its connector owns it; so does a mailbox that was local until
    now. Must run in the firm's scope.

    Raises:
        WrongMailbox: the person chose another mailbox than `expected` on the consent page.
    """
    if expected is not None and expected.address != consent.address:
        raise WrongMailbox(f"You chose {consent.address}; this mailbox is {expected.address}.")
    account: MailAccount
    account, is_new = MailAccount.objects.get_or_create(
        firm_id=firm_id, address=consent.address, defaults={"owner_id": by.user_id}
    )
    lock_mailbox(account)
    account.refresh_from_db()
    before = {} if is_new else {"connection": account.connection}
    was_cut_off = account.connection == Connection.DISCONNECTED
    was_deleted = not is_new and mail_was_deleted(account)
    was_local = account.shared and not MailCredential.objects.filter(account=account).exists()
    if was_local:
        _begin_anew(account, by)
    suggest_if_active_elsewhere(account)
    _mark_connected(account, consent, by)
    store_grant(account, consent.grant)
    resume_mailbox(account)
    pace_mailboxes(firm_id)
    scopes = sorted(consent.grant.scopes)
    record_event(EventType.CONNECTED, account, detail={"scopes": scopes})
    record_operation(
        by,
        "mailbox.connect" if is_new else "mailbox.reconnect",
        firm_id=firm_id,
        target=("mailbox", account.pk),
        before=before,
        after={
            "address": account.address,
            "connection": account.connection,
            "scopes": scopes,
            "owner": account.owner and account.owner.get_username(),
        },
    )
    if is_new or was_local:
        enqueue("email_processing", {"connection_id": account.pk})
    request_reading(account, anew=was_cut_off or was_deleted, mail_deleted=was_deleted)
    return account


def _begin_anew(account: MailAccount, by: Actor) -> None:
    """Make a local mailbox the connector's own; nobody has let Mailroom write to Google's yet.

    Its history cursor means nothing in Gmail; a sync without one deletes the mail that Gmail lacks.
    """
    account.shared, account.owner_id = False, by.user_id
    account.mode, account.active_since, account.history_cursor = Mode.SUGGEST, None, None
    account.save(update_fields=["shared", "owner", "mode", "active_since", "history_cursor"])


def _mark_connected(account: MailAccount, consent: Consent, by: Actor) -> None:
    """Store that the mailbox is connected; if its owner is gone, the connector owns it."""
    if not account.shared and not has_owner(account):
        account.owner_id = by.user_id
    if account.connection == Connection.DISCONNECTED and account.active_since is not None:
        # As at an activation, only mail of the last days is labelled, not all that arrived since.
        account.active_since = timezone.now()
    account.connection = Connection.CONNECTED
    account.active = True
    account.aliases = consent.aliases
    account.held_until = account.delete_mail_at = None
    account.last_error = ""
    account.save(
        update_fields=[
            "owner", "connection", "active", "active_since", "aliases", "held_until",
            "delete_mail_at", "last_error",
        ]
    )  # fmt: skip


@in_firm_scope
def disconnect_account(
    account: MailAccount, *, keep_days: int, reason: str = "", by: Actor = SERVICE
) -> None:
    """Disconnect the mailbox: its permission is withdrawn, and its mail deleted in `keep_days`.

    Raises:
        WrongState: it is disconnected already, maybe by somebody else at this moment.
    """
    account = locked_row(account)
    if account.connection == Connection.DISCONNECTED:
        raise WrongState("The mailbox is disconnected already.")
    delete_at = timezone.now() + timedelta(days=keep_days)
    MailAccount.objects.filter(pk=account.pk).update(
        connection=Connection.DISCONNECTED, delete_mail_at=delete_at
    )
    cancel_waiting(account, "The mailbox was disconnected")
    resume_mailbox(account)
    record_event(EventType.DISCONNECTED, account, detail={"keep_days": keep_days})
    audit(
        "mailbox.disconnect",
        account,
        by,
        reason,
        before={"connection": account.connection},
        after={"connection": Connection.DISCONNECTED.value, "keep_days": keep_days},
    )
    enqueue("revoke.gmail", {"account_id": account.pk})
    enqueue("erase.gmail", {"account_id": account.pk}, at=delete_at)


def revoke_credential(account_id: Any, firm_id: int) -> dict[str, Any]:
    """Withdraw a disconnected mailbox's permission at Google, and delete its tokens.

    Google would withdraw all grants that the person gave this service. So if the same mailbox is
    connected in another firm, the tokens are only deleted.

    Raises:
        GmailError: Google did not answer.
    """
    with firm_scope(firm_id):
        credential = MailCredential.objects.filter(
            account_id=account_id, account__connection=Connection.DISCONNECTED
        ).first()
        if credential is None:
            return {"skipped": True, "reason": "The mailbox is connected, or has no permission"}
        address = MailAccount.objects.get(pk=account_id).address
        token = decrypt_field(credential, "refresh_token")
    with all_firms("the same mailbox may be connected in another firm"):
        used_elsewhere = (
            MailAccount.objects.filter(address=address, connection=Connection.CONNECTED)
            .exclude(pk=account_id)
            .filter(credentials__isnull=False)
            .exists()
        )
    if not used_elsewhere:
        oauth.revoke(oauth_client(), token)
    with firm_scope(firm_id):
        MailCredential.objects.filter(
            pk=credential.pk, refresh_token=credential.refresh_token
        ).delete()
    return {"revoked_at_google": not used_elsewhere}
