"""The messages that actions send: a forward, an automatic reply."""

from __future__ import annotations

from django.db import transaction

from mail.errors import AutomaticRefused, OutboundInvalid
from mail.models import MAX_ERROR_LENGTH, Action, ActionStatus, ActionType, OutboundMessage
from mail.services.actions.types import ForwardParameters, Parameters
from mail.services.sending.outbound import request_forward, request_reply

SENDING = frozenset({ActionType.FORWARD, ActionType.AUTO_REPLY})


def request_message(
    action: Action, parameters: Parameters, *, needs_approval: bool
) -> OutboundMessage | None:
    """Store the message that the action sends; the message's job executes the action.

    None if it cannot be sent: then the action is failed. Must run in the firm's scope.
    """
    asked_by_nobody = action.decision_id is not None or action.rule_id is not None
    try:
        with transaction.atomic():
            if isinstance(parameters, ForwardParameters):
                outbound = request_forward(
                    action.message,
                    action=action,
                    automatic=asked_by_nobody,
                    needs_approval=needs_approval,
                    **parameters.model_dump(),
                )
            else:
                said = parameters.model_dump()
                outbound = request_reply(
                    action.message,
                    text=said["body_plain"] or said["body"],
                    html=said["body_html"],
                    action=action,
                    automatic=True,
                    needs_approval=needs_approval,
                )
    except (OutboundInvalid, AutomaticRefused) as error:
        action.status, action.error = ActionStatus.FAILED, str(error)[:MAX_ERROR_LENGTH]
        action.save(update_fields=["status", "error"])
        return None
    if not needs_approval:
        action.status, action.job_id = ActionStatus.EXECUTING, outbound.job_id
        action.save(update_fields=["status", "job_id"])
    return outbound
