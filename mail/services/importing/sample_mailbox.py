"""Puts the sample mailbox into the local Gmail, with dates moved so that the newest is now.

In the demo it also shows a rule, an undo and an approval, each once, however often the demo runs;
a worker has to run between these steps.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from mail.conf import gmail_simulator_store
from mail.gmail.connect import local_gmail
from mail.gmail.simulator.incoming import prepare
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
from mail.services.importing.import_mail import ImportReport, labels_for
from mail.services.importing.mail_files import FoundMessage, find_messages
from mail.services.mailboxes.accounts import own_addresses
from mail.services.rules import operations as rule_operations
from tenants.scope import firm_scope

SAMPLE_ADDRESS = "tereza.holubova@bramleykos.example"
SAMPLE_OWNER = "Tereza Holubová"
SAMPLE_FOLDERS = ("inbox", "sent")
SAMPLE_PATH = Path(__file__).resolve().parents[2] / "sample"
RULE_NAME = "Newsletters leave the inbox"
RULE_CONDITIONS = {"type": "header_match", "header": "List-Unsubscribe", "pattern": "."}
RULE_DAYS = 30
INVOICE_SENDER = "accounts@ropewalk-north.example"
ACCOUNTANT = "petra.simkova@bramleykos.example"


def import_sample(account: MailAccount) -> ImportReport:
    """Import the sample mailbox once.

    Only the arrival times are moved; the messages' bytes stay, because they identify a message.
    """
    gmail = local_gmail(gmail_simulator_store())
    owners = own_addresses(account)
    raws = [
        found.raw
        for folder in SAMPLE_FOLDERS
        for found in find_messages(SAMPLE_PATH / folder)
        if isinstance(found, FoundMessage)
    ]
    arrivals = [prepare(raw).letter.sent_at for raw in raws]
    now = datetime.now(UTC)
    shift = now - max((moment for moment in arrivals if moment is not None), default=now)
    report = ImportReport()
    for raw, arrival in zip(raws, arrivals, strict=True):
        result = gmail.import_message(
            account.address,
            raw,
            internal_date=_moved(arrival, shift),
            labels=labels_for(raw, owners),
        )
        report.count(created=result.created)
    return report


def _moved(arrival: datetime | None, shift: timedelta) -> datetime | None:
    return None if arrival is None else arrival + shift


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
