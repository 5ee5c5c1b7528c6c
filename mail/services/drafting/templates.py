"""Answers from templates, used if no language model is asked; they do not pretend one was."""

from __future__ import annotations

import re
from typing import Final

from mail.models import MailAccount, Message, ReplyTemplate
from mail.services.drafting.reply_plan import ReplyPlan
from mail.text.cleaning import clean_line

BUILT_IN: Final[dict[str, str]] = {
    "en": "Hello {name},\n\nthank you for your message about “{subject}”.\n\n[TODO: answer]",
    "cs": "Dobrý den,\n\nděkuji za zprávu „{subject}“.\n\n[TODO: odpověď]",
    "de": "Guten Tag {name},\n\nvielen Dank für Ihre Nachricht „{subject}“.\n\n[TODO: Antwort]",
    "fr": "Bonjour {name},\n\nmerci pour votre message « {subject} ».\n\n[TODO : réponse]",
    "es": "Hola {name}:\n\nGracias por su mensaje «{subject}».\n\n[TODO: respuesta]",
}
_CLOSING: Final = "\n\n{sign_off}\n{owner}"
_PLACE: Final = re.compile(r"\{(name|subject|sign_off|owner)\}")
_PREFIX: Final = re.compile(r"^(?:(?:re|aw|odp|sv|rép)\s*:\s*)+", re.IGNORECASE)
_BEFORE_MARK: Final = re.compile(r" +([,:])")


def text_by_template(account: MailAccount, message: Message, plan: ReplyPlan) -> tuple[str, str]:
    """Return the answer and the template's name. Must run in the firm's scope.

    The best template is used: the mailbox's before the firm's, then by style, then by language.
    """
    template = _best(account, plan)
    if template is None:
        text = BUILT_IN.get(plan.language, BUILT_IN["en"]) + _CLOSING
        return _filled(text, message, plan), "built-in"
    return _filled(template.text, message, plan), template.name


def _best(account: MailAccount, plan: ReplyPlan) -> ReplyTemplate | None:
    rows = ReplyTemplate.objects.filter(
        enabled=True, style__in=["", plan.style.name], language__in=["", plan.language]
    )
    usable = [row for row in rows if row.account_id in (None, account.pk)]
    return max(
        usable,
        key=lambda row: (row.account_id is not None, bool(row.style), bool(row.language), row.pk),
        default=None,
    )


def _filled(text: str, message: Message, plan: ReplyPlan) -> str:
    subject = _PREFIX.sub("", clean_line(message.subject, 200))
    values = {
        "name": clean_line(message.sender_name, 100),
        "subject": subject,
        "sign_off": plan.sign_off,
        "owner": plan.owner,
    }
    # In one pass, so that placeholders in a stranger's text are not filled in.
    lines = _PLACE.sub(lambda place: values[place[1]], text).strip()
    return lines if values["name"] else _BEFORE_MARK.sub(r"\1", lines)
