"""Puts the sample mailbox into the local Gmail, with dates moved so that the newest is now."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

from mail.conf import gmail_simulator_store
from mail.gmail.connect import local_gmail
from mail.gmail.simulator.incoming import prepare
from mail.models import MailAccount
from mail.services.importing.import_mail import ImportReport, labels_for
from mail.services.importing.mail_files import FoundMessage, find_messages
from mail.services.mailboxes.accounts import own_addresses

SAMPLE_ADDRESS = "tereza.holubova@bramleykos.example"
SAMPLE_OWNER = "Tereza Holubová"
SAMPLE_FOLDERS = ("inbox", "sent")
SAMPLE_PATH = Path(__file__).resolve().parents[2] / "sample"


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
