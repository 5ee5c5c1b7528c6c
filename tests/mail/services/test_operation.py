"""The names of mail's rows in the audit log, which must not change: entries are found by them."""

from __future__ import annotations

from typing import Any

import pytest

from mail import models
from mail.services.operation import target_type


@pytest.mark.req("T-05")
@pytest.mark.parametrize(
    ("model", "name"),
    [
        (models.MailAccount, "mailbox"),
        (models.Action, "mail_action"),
        (models.AgentProfile, "agent_profile"),
        (models.AgentSchedule, "agent_schedule"),
        (models.Approval, "approval"),
        (models.Contact, "contact"),
        (models.DataRequest, "data_request"),
        (models.Direction, "direction"),
        (models.Draft, "draft"),
        (models.MailLabel, "label"),
        (models.Message, "message"),
        (models.NotificationPreference, "notification_preference"),
        (models.OutboundMessage, "outbound_message"),
        (models.Reminder, "reminder"),
        (models.ReplySettings, "reply_settings"),
        (models.ReplyStyle, "reply_style"),
        (models.ReplyTemplate, "reply_template"),
        (models.RoutingRule, "routing_rule"),
        (models.Rule, "rule"),
    ],
)
def test_a_row_is_called_in_the_audit_log_as_ever(model: type[Any], name: str) -> None:
    assert target_type(model) == name
