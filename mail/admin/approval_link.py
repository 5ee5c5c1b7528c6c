"""`/approvals/TOKEN/`: the page of the link in an e-mail. It needs no login: the link is signed.

GET only shows the approval, because mail scanners open every link; decisions are sent by POST.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

from django.contrib.auth import get_user_model
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from django.views.decorators.http import require_http_methods

from mail.models import Approval, ApprovalStatus
from mail.services.approvals.approvals import Decided, approve, may_decide, refuse, reject
from mail.services.approvals.notice import all_facts_of, content_of
from mail.services.approvals.tokens import Token, read_link
from tenants.audit import Actor
from tenants.scope import firm_scope

FORGED = "Mailroom did not make the link, or made it for other content"
DECISIONS = {"approve": approve, "reject": reject}


@never_cache
@sensitive_variables()
@require_http_methods(["GET", "HEAD", "POST"])
def approval_link(request: HttpRequest, token: str) -> HttpResponse:
    """Show what is asked; on POST, decide."""
    read = read_link(token)
    if read is None:
        raise Http404("no such link")
    if not read.genuine:
        _refuse_forged(read)
        raise Http404("no such link")
    actor = _actor(read)
    decided: Decided | None = None
    if request.method == "POST":
        decision = DECISIONS.get(request.POST.get("decision", ""))
        if decision is None:
            return _page(request, read.approval, actor, None, HTTPStatus.BAD_REQUEST)
        decided = decision(read.approval, by=actor)
    refused = decided is not None and bool(decided.refused)
    status = HTTPStatus.CONFLICT if refused else HTTPStatus.OK
    return _page(request, read.approval, actor, decided, status)


def _refuse_forged(read: Token) -> None:
    refuse(read.approval, FORGED, by=Actor("email", account="forged"), asked="link")


def _actor(read: Token) -> Actor:
    user = (
        get_user_model().objects.filter(pk=read.choice).first() if read.choice.isdigit() else None
    )
    return Actor("email", user) if user is not None else Actor("email", account="nobody")


def _page(
    request: HttpRequest,
    approval: Approval,
    actor: Actor,
    decided: Decided | None,
    status: HTTPStatus,
) -> HttpResponse:
    refused = decided.refused if decided else ""
    with firm_scope(approval.firm_id):
        rows = Approval.objects.select_related("account", "message", "action", "outbound", "firm")
        approval = rows.get(pk=approval.pk)
        allowed = may_decide(approval, actor)
        waits = approval.status == ApprovalStatus.PENDING and approval.expires_at > timezone.now()
        # The link needs no login and stays in a mailbox, so a decided approval shows no content.
        shown = allowed and (waits or (decided is not None and not refused))
        context: dict[str, Any] = {
            "approval": approval,
            "facts": all_facts_of(approval) if shown else [],
            "outbound": approval.outbound if shown else None,
            "content": content_of(approval.outbound) if shown and approval.outbound else [],
            "refused": refused,
            "is_open": allowed and waits,
            "allowed": allowed,
        }
        answer = render(request, "mail/approval.html", context, status=status)
    # The URL is the permission, so other sites must not get it as a referrer. But without any
    # referrer a browser would send the form with the origin "null", and Django would refuse it.
    answer.headers["Referrer-Policy"] = "same-origin"
    return answer
