"""What a digest says: what waits in a mailbox for its person, in plain text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any
from zoneinfo import ZoneInfo

from mail.conf import public_url
from mail.models import (
    CATEGORY_CHOICES,
    Approval,
    Draft,
    MailAccount,
    MailThread,
    OutboundMessage,
    Rule,
)
from mail.services.mailboxes.briefing import Briefing, Part, briefing_of, open_by_category
from mail.text.cleaning import clean_line

PAGE = "/admin/mail/{}/{}/change/"
BRIEFING_PAGE = "/admin/mail/mailaccount/{}/briefing/"
PREFERENCES_PAGE = "/admin/mail/notificationpreference/"
MAX_LINE_LENGTH = 70
_WORDS = dict(CATEGORY_CHOICES)
_COLUMNS = "{:<18}{:>6}{:>12}"


@dataclass(frozen=True)
class Digest:
    """What there is to say about a mailbox today."""

    address: str
    summary: str
    """One line of numbers, without anything that the mail says."""
    text: str
    briefing_page: str


def digest_of(account: MailAccount, day: date, time_zone: str) -> Digest | None:
    """Return the digest of a mailbox, which quotes its mail; None if there is nothing to say.

    Must run in the firm's scope.
    """
    briefing = briefing_of(account)
    counted = [
        (briefing.for_you.count, "waits for you", "wait for you"),
        (briefing.follow_ups.count, "unanswered", "unanswered"),
        (briefing.approvals.count, "approval", "approvals"),
        (briefing.in_doubt.count, "needs a look", "need a look"),
        (briefing.drafts.count, "draft", "drafts"),
        (briefing.proposed_rules.count, "proposed rule", "proposed rules"),
    ]
    said = [f"{count} {one if count == 1 else many}" for count, one, many in counted if count]
    if not said:
        return None
    page = f"{public_url()}{BRIEFING_PAGE.format(account.pk)}"
    lines = [
        f"{account.address}, {day:%A}, {day.day} {day:%B %Y}",
        *_parts(briefing, ZoneInfo(time_zone)),
        *_counts(briefing, open_by_category(account, 1)),
        f"The briefing:               {page}",
        f"Change or stop the digest:  {public_url()}{PREFERENCES_PAGE}",
    ]
    return Digest(account.address, ", ".join(said), "\n".join(lines) + "\n", page)


def _parts(briefing: Briefing, zone: ZoneInfo) -> Iterator[str]:
    yield from _part("Waits for you", briefing.for_you, _thread, zone)
    yield from _part("Nobody answered you", briefing.follow_ups, _thread, zone)
    yield from _part("Waits for your approval", briefing.approvals, _approval, zone)
    yield from _part("Sent or not? Have a look", briefing.in_doubt, _outbound, zone)
    yield from _part("Drafts in Gmail", briefing.drafts, _draft, zone)
    yield from _part("Proposed rules", briefing.proposed_rules, _rule, zone)


def _part(heading: str, part: Part, words: Any, zone: ZoneInfo) -> Iterator[str]:
    if not part.count:
        return
    yield from ("", f"{heading} ({part.count})", "")
    for row in part.first:
        subject, about = words(row, zone)
        yield f"* {clean_line(subject, MAX_LINE_LENGTH) or '(no subject)'}"
        yield f"  {about}"
        yield f"  {public_url()}{PAGE.format(row._meta.model_name, row.pk)}"
    if part.count > len(part.first):
        yield f"* and {part.count - len(part.first)} more"


def _thread(thread: MailThread, zone: ZoneInfo) -> tuple[str, str]:
    since = _moment(thread.last_message_at, zone)
    # A thread in which only its owner wrote has no category, because nobody judges it.
    return thread.subject, f"{thread.get_classification_display() or 'Waiting'}, since {since}"


def _approval(approval: Approval, zone: ZoneInfo) -> tuple[str, str]:
    mail = approval.outbound or approval.message
    about = f"{approval.subject}: {mail.subject}" if mail is not None else approval.subject
    return about, f"ends {_moment(approval.expires_at, zone)}"


def _outbound(outbound: OutboundMessage, zone: ZoneInfo) -> tuple[str, str]:
    return outbound.subject, (
        f"nobody can tell whether it was sent; written {_moment(outbound.created_at, zone)}"
    )


def _draft(draft: Draft, zone: ZoneInfo) -> tuple[str, str]:
    edited = ", edited by you" if draft.edited else ""
    return draft.subject, f"written {_moment(draft.written_at, zone)}{edited}"


def _rule(rule: Rule, _: ZoneInfo) -> tuple[str, str]:
    count = rule.corrections
    return rule.name, f"for {count} correction{'' if count == 1 else 's'} of yours"


def _counts(briefing: Briefing, today: dict[str, int]) -> Iterator[str]:
    """Yield the table of categories; mail of the last day is new."""
    yield from ("", _COLUMNS.format("Threads", "new", "not done"))
    for category, count in briefing.categories.items():
        yield _COLUMNS.format(_WORDS[category], today[category], count)
    yield f"New: mail of the last day. Not done: mail of the last {briefing.days} days."
    yield ""


def _moment(moment: datetime | None, zone: ZoneInfo) -> str:
    if moment is None:
        return "-"
    local = moment.astimezone(zone)
    return f"{local.day} {local:%B, %H:%M}"
