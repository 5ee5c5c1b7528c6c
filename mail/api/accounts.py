"""`accounts/`: mailboxes, and operations on one: sync, switch modes, pause, disconnect."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiResponse
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.api.schema import operation
from interfaces.api.serializers import StrictSerializer
from jobs.api.requests import ObligatoryReason
from jobs.api.views import example, list_operation, row_operation, show_operation
from mail.api.base import MailView
from mail.api.briefing import BriefingQuery, BriefingSerializer
from mail.api.serializers import (
    AccountSerializer,
    AttachmentsBody,
    DisconnectBody,
    FollowUpsBody,
    RequestedSyncSerializer,
    SwitchBody,
    SyncBody,
)
from mail.models import MailAccount
from mail.services.documents.documents import set_reading
from mail.services.mailboxes import modes
from mail.services.mailboxes.briefing import briefing_of
from mail.services.mailboxes.connect_account import disconnect_account
from mail.services.mailboxes.content_access import break_glass, may_read
from mail.services.reminders.follow_ups import set_follow_ups
from mail.services.syncing.watch import renew_watch_now
from tenants.models import Role
from tenants.scope import firm_scope

_ACCOUNT = OpenApiResponse(AccountSerializer, "The mailbox as it is now.")


class Accounts(MailView):
    """The mailboxes of the caller's firms."""

    resource = tag = "accounts"
    model, serializer = MailAccount, AccountSerializer

    list = list_operation(
        "List mailboxes",
        "The newest first. To connect a mailbox, use the admin, because Google asks its owner "
        "there.",
        serializer=AccountSerializer,
        rows="mailboxes",
    )
    show = show_operation(
        "Show a mailbox",
        "The mailbox's connection, mode, cursor and last error; no mail and no token.",
        answer=OpenApiResponse(AccountSerializer, "The mailbox."),
    )
    suggest_only = row_operation(
        modes.suggest_only,
        "Make a mailbox suggest-only",
        "Decisions are stored and shown, and nothing more is written to Gmail. Needs the role "
        "operator. 409 if the mailbox is suggest-only already.",
        body=SwitchBody,
        answer=_ACCOUNT,
        example=example("Suggest only", reason="We try out new rules"),
    )
    pause = row_operation(
        modes.pause_mailbox,
        "Pause a mailbox",
        "Nothing is written to Gmail until the mailbox is resumed; changes that are asked for "
        "wait. Needs the role operator. 409 if the mailbox is paused already.",
        body=SwitchBody,
        answer=_ACCOUNT,
        example=example("Pause", reason="The owner is looking into it"),
    )
    resume = row_operation(
        modes.resume_writing,
        "Resume a mailbox",
        "Changes that wait are written to Gmail. Needs the role operator. 409 if the mailbox is "
        "not paused.",
        body=SwitchBody,
        answer=_ACCOUNT,
        example=example("Resume", reason="It was nothing"),
    )

    @operation(
        "Sync a mailbox",
        "Reads what changed since the last sync; `full` also scans the mail of the last days. If "
        "a sync already waits, no second one is queued. Needs the role operator. 409 if the "
        "mailbox is not connected.",
        body=SyncBody,
        answers={HTTPStatus.OK: OpenApiResponse(RequestedSyncSerializer, "The sync's job.")},
        example=example("In full", full=True, reason="Mail is missing"),
    )
    def sync(self, _: Request, **__: UUID) -> Response:
        account = self.get_object(Role.OPERATOR)
        body = self.get_body(SyncBody)
        requested = modes.sync_now(account, force_full=body.pop("full"), by=self.actor, **body)
        answer = {"job_id": str(requested.job.pk), "created": requested.created}
        return Response(answer)

    @operation(
        "Sync a mailbox's labels",
        "Reads which labels the mailbox has. Needs the role operator. 409 if the mailbox is not "
        "connected.",
        body=SwitchBody,
        answers={HTTPStatus.OK: OpenApiResponse(RequestedSyncSerializer, "The job.")},
        example=example("Sync labels", reason="A label was renamed"),
    )
    def sync_labels(self, _: Request, **__: UUID) -> Response:
        account = self.get_object(Role.OPERATOR)
        requested = modes.sync_labels_now(account, by=self.actor, **self.get_body(SwitchBody))
        return Response({"job_id": str(requested.job.pk), "created": requested.created})

    @operation(
        "Show a mailbox's briefing",
        "Threads by category, what waits for the person and for others, drafts, approvals and "
        "proposed rules. Only readers of the mailbox see the briefing, because it quotes mail.",
        query=BriefingQuery,
        answers={HTTPStatus.OK: OpenApiResponse(BriefingSerializer, "The briefing.")},
    )
    def briefing(self, request: Request, **__: UUID) -> Response:
        account = self.get_object()
        with firm_scope(account.firm_id):
            if not may_read(request.user.pk, account):
                self.permission_denied(request, "Only a reader of the mailbox sees its briefing.")
            briefing = briefing_of(account, **self.query)
            return Response(BriefingSerializer(briefing).data)

    renew_watch = row_operation(
        renew_watch_now,
        "Renew a mailbox's watch",
        "Asks Gmail to publish the mailbox's changes for another week. Needs the role operator. "
        "409 if the mailbox is not connected, or if no Pub/Sub topic is configured.",
        body=SwitchBody,
        answer=_ACCOUNT,
        example=example("Renew", reason="The topic was missing"),
    )

    break_glass = row_operation(
        break_glass,
        "Take break-glass access to a mailbox",
        "The caller may read the mailbox's mail for an hour. The audit log records this with the "
        "reason, and the owner sees it. Needs the role admin.",
        role=Role.ADMIN,
        body=ObligatoryReason,
        answer=_ACCOUNT,
        example=example("Break glass", reason="The owner is ill, and a client waits"),
    )

    @operation(
        "Make a mailbox active",
        "Decisions are shown in Gmail as labels, also on the mail of the last days. Needs the "
        "role admin, unless the caller is the mailbox's owner. 409 if the mailbox is active "
        "already.",
        body=SwitchBody,
        answers={HTTPStatus.OK: _ACCOUNT},
        example=example("Make active", reason="The suggestions were right"),
    )
    def activate(self, _: Request, **__: UUID) -> Response:
        return self._as_owner(modes.activate, SwitchBody)

    @operation(
        "Set a mailbox's follow-up reminders",
        "The owner is reminded once of each message of theirs that asks something and that "
        "nobody answered for `days` days; null: no reminders from now on. Needs the role admin, "
        "unless the caller is the mailbox's owner. 409 if the mailbox has no owner.",
        body=FollowUpsBody,
        answers={HTTPStatus.OK: _ACCOUNT},
        example=example("After five days", days=5, reason="Offers get lost"),
    )
    def follow_ups(self, _: Request, **__: UUID) -> Response:
        return self._as_owner(set_follow_ups, FollowUpsBody)

    @operation(
        "Choose whether a mailbox's attachments are read",
        "Applies to new mail. While the setting READ_ATTACHMENTS is off, no mailbox's "
        "attachments are read. Text that was already read is kept. Needs the role admin, unless "
        "the caller is the mailbox's owner.",
        body=AttachmentsBody,
        answers={HTTPStatus.OK: _ACCOUNT},
        example=example("None", read=False, reason="They are confidential"),
    )
    def attachments(self, _: Request, **__: UUID) -> Response:
        return self._as_owner(set_reading, AttachmentsBody)

    @operation(
        "Disconnect a mailbox",
        "The mailbox's waiting jobs are canceled, Mailroom's permission is revoked at Google, "
        "and the mailbox's mail is deleted in `keep_days` days. Needs the role admin, unless the "
        "caller is the mailbox's owner. 409 if the mailbox is disconnected.",
        body=DisconnectBody,
        answers={HTTPStatus.OK: _ACCOUNT},
        example=example("Delete its mail now", keep_days=0, reason="The owner left the firm"),
    )
    def disconnect(self, _: Request, **__: UUID) -> Response:
        return self._as_owner(disconnect_account, DisconnectBody)

    def get_rows(self, **filters: Any) -> QuerySet[Any]:
        """Return the mailboxes with their owners."""
        return super().get_rows(**filters).select_related("firm", "owner")

    def _as_owner(self, operate: Callable[..., object], body: type[StrictSerializer]) -> Response:
        account = self.get_object()
        if not self.acts_as_owner(account):
            self.check_role(Role.ADMIN, account.firm_id)
        operate(account, by=self.actor, **self.get_body(body))
        return Response(self.represent(self.get_rows().get(pk=account.pk)))
