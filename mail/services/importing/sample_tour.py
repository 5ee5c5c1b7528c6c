"""Shows features on the sample mailbox in the demo: a rule, an undo, an approval.

Each step is done once, however often the demo runs. A worker has to run between the steps.
"""

from __future__ import annotations

from mail.models import (
    Action,
    ActionLink,
    ActionStatus,
    ActionType,
    MailAccount,
    Message,
    Relation,
    Rule,
)
from mail.services.actions.actions import request_action
from mail.services.actions.undo import request_undo
from mail.services.rules import operations as rule_operations
from tenants.scope import firm_scope

RULE_NAME = "Newsletters leave the inbox"
RULE_CONDITIONS = {"type": "header_match", "header": "List-Unsubscribe", "pattern": "."}
RULE_DAYS = 30
INVOICE_SENDER = "accounts@ropewalk-north.example"
ACCOUNTANT = "petra.simkova@bramleykos.example"


def apply_rule(account: MailAccount) -> None:
    """Have newsletters archived by a rule: create, try and enable it, apply it to recent mail."""
    with firm_scope(account.firm_id):
        if Rule.objects.filter(name=RULE_NAME).exists():
            return
        rule = rule_operations.create_rule(
            account.firm_id,
            name=RULE_NAME,
            conditions=RULE_CONDITIONS,
            actions=[{"action": ActionType.ARCHIVE.value, "parameters": {}}],
        )
        rule_operations.try_rule(rule, user_id=account.owner_id)
        rule_operations.enable_rule(rule)
        rule_operations.apply_to_old_mail(rule, days=RULE_DAYS)


def ask_to_forward(account: MailAccount) -> None:
    """Ask to forward an invoice to the accountant; nothing is sent without an approval."""
    with firm_scope(account.firm_id):
        invoices = Message.objects.filter(account=account, sender_address=INVOICE_SENDER)
        invoice = invoices.order_by("internal_date").first()
        asked = Action.objects.filter(account=account, action_type=ActionType.FORWARD)
        if invoice is not None and not asked.exists():
            request_action(invoice, ActionType.FORWARD, {"to": [ACCOUNTANT]})


def undo_newest_archive(account: MailAccount) -> None:
    """Undo the newest archiving that the rule did."""
    with firm_scope(account.firm_id):
        done = ActionLink.objects.filter(
            cause__account=account, relation=Relation.UNDO_OF, counts=True
        )
        archived = Action.objects.filter(
            account=account, action_type=ActionType.ARCHIVE, status=ActionStatus.COMPLETED
        )
        newest = archived.order_by("-message__internal_date").first()
        if newest is not None and not done.exists():
            request_undo(newest, reason="Shown by the demo")
