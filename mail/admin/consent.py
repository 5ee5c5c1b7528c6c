"""Google's consent page: sends a person there, and receives Google's answer."""

from __future__ import annotations

import time
from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.models import AbstractBaseUser
from django.http import HttpRequest, HttpResponseRedirect
from django.urls import reverse
from django.utils.crypto import constant_time_compare
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_GET

from mail.conf import oauth_client, oauth_redirect_uri
from mail.errors import ConsentUnusable
from mail.gmail.errors import GmailError
from mail.gmail.oauth import REQUIRED_SCOPES, request_consent
from mail.models import MailAccount
from mail.services.mailboxes.accounts import SYSTEM_FIRM
from mail.services.mailboxes.connect_account import Consent, connect_account, take_consent
from tenants.access import access_of
from tenants.admin.firm_choice import SingleFirmForm
from tenants.audit import Actor
from tenants.models import Role
from tenants.scope import firm_scope

SESSION_KEY = "gmail_consent"
VALID_SECONDS = 600
CONNECT_ROLE = Role.OPERATOR


class ConnectForm(SingleFirmForm):
    """The firm in which the mailbox is connected."""

    role = CONNECT_ROLE

    def clean(self) -> dict[str, Any]:
        """Refuse the system firm, which platform staff could name."""
        answers = super().clean()
        firm = answers.get("firm")
        if firm is not None and firm.is_system:
            self.add_error("firm", SYSTEM_FIRM)
        return answers


class _Refused(Exception):
    """Nothing was connected; the message says why."""


def begin_consent(
    request: HttpRequest, firm_id: int, account: MailAccount | None
) -> HttpResponseRedirect:
    """Redirect to the consent page, and store the purpose in the person's session."""
    redirect_uri = oauth_redirect_uri() or request.build_absolute_uri(
        reverse("gmail-oauth-callback")
    )
    consent = request_consent(
        oauth_client(),
        redirect_uri,
        list(REQUIRED_SCOPES),
        address="" if account is None else account.address,
    )
    request.session[SESSION_KEY] = {
        "state": consent.state,
        "code_verifier": consent.code_verifier,
        "redirect_uri": redirect_uri,
        "firm_id": firm_id,
        "account_id": None if account is None else str(account.pk),
        "expires": time.time() + VALID_SECONDS,
    }
    return HttpResponseRedirect(consent.url)


@require_GET
@sensitive_variables()
def gmail_callback(request: HttpRequest) -> HttpResponseRedirect:
    """Connect the mailbox for which the person has given consent."""
    try:
        pending = _take_pending(request)
        consent = _take_consent(request, pending)
        account = _connect(request, pending, consent)
    except (_Refused, ConsentUnusable, GmailError) as error:
        messages.error(request, f"Nothing was connected. {error}")
        return HttpResponseRedirect(reverse("admin:mail_mailaccount_changelist"))
    messages.success(request, f"Connected {account.address}. Its mail is being read.")
    return HttpResponseRedirect(reverse("admin:mail_mailaccount_change", args=[account.pk]))


@sensitive_variables()
def _take_pending(request: HttpRequest) -> dict[str, Any]:
    """Return the pending request from the session, and remove it, so that it is used once."""
    pending: dict[str, Any] | None = request.session.pop(SESSION_KEY, None)
    state = request.GET.get("state", "")
    if (
        pending is None
        or not constant_time_compare(state, pending["state"])
        or time.time() > pending["expires"]
    ):
        raise _Refused("This answer belongs to no request of yours, or came too late: start again.")
    return pending


@sensitive_variables()
def _take_consent(request: HttpRequest, pending: dict[str, Any]) -> Consent:
    if error := request.GET.get("error", ""):
        reason = "You did not allow it." if error == "access_denied" else "Google refused it."
        raise _Refused(reason)
    code = request.GET.get("code", "")
    if not code:
        raise _Refused("The answer holds no code of Google's: start again.")
    return take_consent(pending["redirect_uri"], code, pending["code_verifier"])


def _connect(request: HttpRequest, pending: dict[str, Any], consent: Consent) -> MailAccount:
    user = cast("AbstractBaseUser", request.user)
    access = access_of(user)
    if not access.may(CONNECT_ROLE, pending["firm_id"]):
        raise _Refused("Your role in the firm does not allow it any more.")
    with firm_scope(pending["firm_id"]):
        expected = None
        if pending["account_id"] is not None:
            expected = MailAccount.objects.filter(pk=pending["account_id"]).first()
            if expected is None:
                raise _Refused("The mailbox is gone.")
        return connect_account(
            pending["firm_id"], consent, by=Actor("admin", user), expected=expected
        )
