"""The labels of a mailbox are kept as in Gmail, together with people's descriptions."""

from __future__ import annotations

import pytest

from jobs.engine.outcomes import Completed
from mail.labels import LABEL_NAMES, PAUSE_LABEL, LabelKey
from mail.models import EventType, MailEvent, MailLabel, Mode, PausedBy, Rule, Scope
from mail.services.mailboxes.modes import activate, suggest_only, sync_labels_now
from mail.services.queueing import LABELS_TYPE
from mail.services.syncing import labels
from mail.services.syncing.labels import describe_label, ensure_label, refresh_labels
from tenants.audit import SERVICE
from tenants.scope import firm_scope
from tests.mail.mail_kit import Mailbox, drain, jobs, only, stored
from tests.mail.services.rules.test_rules import rule_of

pytestmark = [pytest.mark.django_db, pytest.mark.req("M-07")]


def rename(mailbox: Mailbox, label_id: str, name: str) -> None:
    api = mailbox.gmail._resources.labels
    mailbox.gmail._execute(api.patch(userId="me", id=label_id, body={"name": name}))


def delete(mailbox: Mailbox, label_id: str) -> None:
    mailbox.gmail._execute(mailbox.gmail._resources.labels.delete(userId="me", id=label_id))


def names() -> set[str]:
    return {row.name for row in stored(MailLabel)}


def test_labels_are_found_renamed_and_forgotten(mailbox: Mailbox) -> None:
    offers = mailbox.gmail.create_label("Offers")["id"]
    mailbox.gmail.create_label("Taxes")
    changes = refresh_labels(mailbox.account, mailbox.gmail)
    assert (changes.created, changes.renamed, changes.deleted) == (2, 0, 0)
    assert names() == {"Offers", "Taxes"}
    kept = only(stored(MailLabel), name="Offers")
    describe_label(kept, by=SERVICE, description="From suppliers", available_to_classifier=False)

    rename(mailbox, offers, "Quotations")
    changes = refresh_labels(mailbox.account, mailbox.gmail)
    assert (changes.created, changes.renamed, changes.deleted) == (0, 1, 0)
    renamed = only(stored(MailLabel), gmail_label_id=offers)
    assert renamed.pk == kept.pk
    assert renamed.name == "Quotations"
    assert (renamed.description, renamed.available_to_classifier) == ("From suppliers", False)

    delete(mailbox, offers)
    changes = refresh_labels(mailbox.account, mailbox.gmail)
    assert (changes.created, changes.renamed, changes.deleted) == (0, 0, 1)
    assert names() == {"Taxes"}
    (event,) = stored(MailEvent)
    assert (event.event_type, event.detail) == (EventType.LABEL_DELETED, {"label_id": offers})
    assert refresh_labels(mailbox.account, mailbox.gmail) == labels.LabelChanges()


def test_rules_that_name_a_deleted_label_are_switched_off_with_the_reason(
    mailbox: Mailbox,
) -> None:
    offers = ensure_label(mailbox.account, mailbox.gmail, "Offers")
    ensure_label(mailbox.account, mailbox.gmail, "Taxes")
    scope = {"scope": Scope.ACCOUNT, "account_id": mailbox.account.pk}
    has = {"type": "label_present", "label": offers}
    named = rule_of(mailbox.firm, conditions=has, **scope)
    other = rule_of(
        mailbox.firm,
        actions=[{"action": "apply_label", "parameters": {"label": "Taxes"}}],
        **scope,
    )
    delete(mailbox, offers)
    sync_labels(mailbox)
    found = {rule.pk: rule for rule in stored(Rule)}
    assert not found[named.pk].enabled
    assert found[named.pk].disabled_reason == "Label 'Offers' was deleted from Gmail"
    assert found[other.pk].enabled


def test_a_renamed_label_of_ours_stays_ours(mailbox: Mailbox) -> None:
    fyi = ensure_label(mailbox.account, mailbox.gmail, LABEL_NAMES[LabelKey.FYI])
    rename(mailbox, fyi, "Only to know")
    refresh_labels(mailbox.account, mailbox.gmail)
    assert only(stored(MailLabel), gmail_label_id=fyi).key == LabelKey.FYI
    assert ensure_label(mailbox.account, mailbox.gmail, LABEL_NAMES[LabelKey.FYI]) == fyi


def sync_labels(mailbox: Mailbox) -> None:
    sync_labels_now(mailbox.account)
    assert all(isinstance(outcome, Completed) for outcome in drain())


def test_labels_are_synced_on_demand_once(mailbox: Mailbox) -> None:
    first, second = sync_labels_now(mailbox.account), sync_labels_now(mailbox.account)
    assert (first.created, second.created) == (True, False)
    (job,) = jobs()
    assert (job.job_type, job.lock_key) == (LABELS_TYPE, f"gmail-sync:{mailbox.account.pk}")
    mailbox.gmail.create_label("Offers")
    drain()
    assert names() == {"Offers"}
    assert jobs(LABELS_TYPE, live=False)[0].result == {"created": 1, "renamed": 0, "deleted": 0}


@pytest.mark.req("M-24")
def test_the_pause_label_acts_within_one_label_sync(mailbox: Mailbox) -> None:
    arrived = mailbox.receive()
    # The person creates the label in Gmail, so Mailroom does not know it yet.
    label_id = mailbox.gmail.create_label(PAUSE_LABEL)["id"]
    mailbox.gmail.modify_message(arrived, add=[label_id])
    sync_labels(mailbox)
    assert mailbox.reload().paused_by == PausedBy.LABEL
    mailbox.gmail.modify_message(arrived, remove=[label_id])
    sync_labels(mailbox)
    assert mailbox.reload().paused_by == PausedBy.NOTHING


@pytest.mark.req("M-24")
def test_deleting_the_pause_label_resumes(mailbox: Mailbox) -> None:
    arrived = mailbox.receive()
    label_id = mailbox.gmail.create_label(PAUSE_LABEL)["id"]
    mailbox.gmail.modify_message(arrived, add=[label_id])
    sync_labels(mailbox)
    delete(mailbox, label_id)
    sync_labels(mailbox)
    assert mailbox.reload().paused_by == PausedBy.NOTHING


def test_activation_makes_the_watch_name_our_labels(mailbox: Mailbox, pusher: object) -> None:
    suggest_only(mailbox.account)
    activate(mailbox.account)
    drain()
    assert mailbox.reload().mode == Mode.ACTIVE
    assert mailbox.account.watch_expires_at is not None


def test_nothing_is_told_of_another_mailboxs_labels(mailbox: Mailbox, other_firm: object) -> None:
    from mail.services.mailboxes.accounts import open_account

    twin = open_account(other_firm, mailbox.account.address)  # type: ignore[arg-type]  # a firm
    ensure_label(mailbox.account, mailbox.gmail, "Offers")
    refresh_labels(twin, mailbox.gmail)
    delete(mailbox, only(stored(MailLabel), account_id=twin.pk).gmail_label_id)
    refresh_labels(twin, mailbox.gmail)
    with firm_scope(mailbox.firm):
        assert MailLabel.objects.filter(account=mailbox.account, name="Offers").exists()
