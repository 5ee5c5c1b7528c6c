"""Decides how a message is to be answered: style, language, sign-off, template; or not at all."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

from mail.llm.base import DEFAULT_STYLE, UNKNOWN_LANGUAGE
from mail.models import (
    Contact,
    Decision,
    DecisionSource,
    MailAccount,
    Message,
    ReplySettings,
    ReplyStyle,
    ReplyTemplate,
)
from mail.text.cleaning import clean_line
from mail.text.language import detect_language

BUILT_IN_TEMPLATES: Final[dict[str, str]] = {
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
AUTO_LANGUAGE: Final = "auto"
_SIGN_OFFS: Final[dict[str, tuple[str, str, str]]] = {
    "en": ("Yours sincerely,", "Best regards,", "Best,"),
    "cs": ("S úctou", "S pozdravem", "Měj se hezky"),
    "de": ("Hochachtungsvoll", "Mit freundlichen Grüßen", "Viele Grüße"),
    "fr": ("Veuillez agréer mes salutations distinguées,", "Cordialement,", "À bientôt,"),
    "es": ("Atentamente,", "Saludos cordiales,", "Un saludo,"),
}


@dataclass(frozen=True)
class ReplyPlan:
    """How to answer; `language` is a code, never auto."""

    style: Style
    language: str
    sign_off: str
    owner: str
    gather_context: bool = True


def settings_for(account: MailAccount) -> ReplySettings:
    """Return the mailbox's reply settings, else the firm's, else the defaults.

    Must run in the firm's scope.
    """
    rows = ReplySettings.objects.filter(account=account) | ReplySettings.objects.filter(
        account=None
    )
    found = sorted(rows, key=lambda row: row.account_id is None)
    return found[0] if found else ReplySettings(firm_id=account.firm_id)


def contacts_for(account: MailAccount) -> list[Contact]:
    """Return the mailbox's contacts, then the firm's. Must run in the firm's scope."""
    rows = Contact.objects.filter(account=account) | Contact.objects.filter(account=None)
    return sorted(rows, key=lambda row: (row.account_id is None, str(row.pk)))


def is_blocked(sender_address: str, contacts: Iterable[Contact]) -> bool:
    """Say whether the sender is on the blacklist."""
    return any(one.blocked and covers(one, sender_address) for one in contacts)


def covers(contact: Contact, sender_address: str) -> bool:
    """Say whether a contact is about the sender: the address, or its domain."""
    address = sender_address.lower()
    asked = {address, address.rpartition("@")[2]} - {""}
    return any(fnmatchcase(one, contact.pattern) for one in asked)


def plan_for(account: MailAccount, message: Message) -> ReplyPlan:
    """Return how to answer the message. Must run in the firm's scope.

    The contact for the sender decides first, an exact address before a pattern; then the newest
    decision, then the mailbox's settings.
    """
    settings = settings_for(account)
    contacts = [one for one in contacts_for(account) if covers(one, message.sender_address)]
    # The sort is stable, so among equally exact contacts the mailbox's own come first.
    contacts.sort(
        key=lambda one: ("@" not in one.pattern or "*" in one.pattern, "*" in one.pattern)
    )
    style_name = next((one.style for one in contacts if one.style), "")
    language = next((one.language for one in contacts if one.language), "")
    said = _said_by_decision(message)
    style = _style(account, style_name or said.get("style") or settings.default_style, settings)
    if not language:
        language = _language(style, said.get("language", ""), message, settings)
    owner = settings.sign_off_name or account.display_name
    sign_off = style.sign_off or usual_sign_off(style.name, language)
    return ReplyPlan(style, language, sign_off, owner, settings.gather_context)


def _said_by_decision(message: Message) -> dict[str, str]:
    decision = (
        Decision.objects.filter(message=message).order_by("-pk").only("source", "explanations")
    ).first()
    explanations = None if decision is None else decision.explanations
    said = explanations if isinstance(explanations, dict) else {}
    found = {name: str(said.get(name) or "") for name in ("style", "language")}
    if decision is not None and decision.source != DecisionSource.MODEL:
        # Only a model chooses a style; after any other decision the mailbox's own applies.
        found["style"] = ""
    return found


def _style(account: MailAccount, name: str, settings: ReplySettings) -> Style:
    for wanted in (name, settings.default_style, DEFAULT_STYLE):
        rows = ReplyStyle.objects.filter(name=wanted)
        own = rows.filter(account=account).first() or rows.filter(account=None).first()
        if own is not None:
            return Style(
                own.name, tuple(own.rules), own.sign_off, own.language, tuple(own.examples)
            )
        if wanted in BUILT_IN:
            return BUILT_IN[wanted]
    return BUILT_IN[DEFAULT_STYLE]


def _language(style: Style, decided: str, message: Message, settings: ReplySettings) -> str:
    if style.language != AUTO_LANGUAGE:
        return style.language
    if decided and decided != UNKNOWN_LANGUAGE:
        return decided
    return detect_language(message.text) or settings.default_language


def text_by_template(account: MailAccount, message: Message, plan: ReplyPlan) -> tuple[str, str]:
    """Return the answer and the template's name. Must run in the firm's scope.

    The best template is used: the mailbox's before the firm's, then by style, then by language.
    """
    template = _best(account, plan)
    if template is None:
        text = BUILT_IN_TEMPLATES.get(plan.language, BUILT_IN_TEMPLATES["en"]) + _CLOSING
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


@dataclass(frozen=True)
class Style:
    """A tone in which to answer; `sign_off` is empty for the usual words of the language."""

    name: str
    rules: tuple[str, ...]
    sign_off: str = ""
    language: str = AUTO_LANGUAGE
    examples: tuple[dict[str, str], ...] = ()


# A firm's style of the same name replaces one.
BUILT_IN: Final[dict[str, Style]] = {
    style.name: style
    for style in (
        Style("formal", ("Address the person by title and surname.", "Use no contractions.")),
        Style("business", ("Be friendly and to the point.", "Keep it short.")),
        Style("informal", ("Write as to somebody you know well.", "Use the first name.")),
    )
}


def usual_sign_off(style: str, language: str) -> str:
    """Return a language's closing words for a style; in English if the language is not known."""
    formal, business, informal = _SIGN_OFFS.get(language, _SIGN_OFFS["en"])
    return {"formal": formal, "informal": informal}.get(style, business)
