"""`/webhooks/discord/`: Discord posts pressed buttons here, signed."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

import structlog
from django.contrib.auth import get_user_model
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from interfaces.api.problems import PROBLEM_TYPE, problem
from mail import discord
from mail.conf import discord_public_key, discord_users
from mail.services.approvals.approvals import approve, refuse, reject
from mail.services.approvals.tokens import Token, read_button
from tenants.audit import Actor

MAX_BODY_BYTES = 64 * 1024
DECISIONS = {"approve": approve, "reject": reject}
FORGED = "Mailroom did not make the button, or made it for other content"

_log = structlog.get_logger("mail")


@csrf_exempt
@require_POST
def discord_button(request: HttpRequest) -> HttpResponse:
    """Take one interaction: Discord's ping, or a pressed button."""
    # Reading a limited length keeps a body of unknown length from being read to its end.
    body = request.read(MAX_BODY_BYTES + 1)
    if len(body) > MAX_BODY_BYTES:
        return _problem(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large", "The body is too large.")
    if not discord.is_signed(
        discord_public_key(),
        request.headers.get("X-Signature-Ed25519", ""),
        request.headers.get("X-Signature-Timestamp", ""),
        body,
    ):
        _log.warning("mail.discord_signature_invalid")
        return _problem(HTTPStatus.UNAUTHORIZED, "not_signed", "The signature is not Discord's.")
    try:
        interaction = json.loads(body)
        if interaction["type"] == discord.PING:
            return JsonResponse(discord.pong())
        pressed, presser = str(interaction["data"]["custom_id"]), _presser(interaction)
    except (ValueError, KeyError, TypeError, RecursionError):
        return _problem(HTTPStatus.BAD_REQUEST, "malformed", "This is no pressed button.")
    return JsonResponse(_decide(read_button(pressed), presser))


def _presser(interaction: dict[str, Any]) -> str:
    """Return Discord's id of the person: a member in a server, a user in a direct message."""
    person = interaction["member"]["user"] if "member" in interaction else interaction["user"]
    return str(person["id"])


def _decide(read: Token | None, presser: str) -> dict[str, Any]:
    if read is None:
        return discord.whispered("There is no such question.")
    actor = _actor(presser)
    decision = DECISIONS.get(read.choice)
    if not read.genuine or decision is None:
        refuse(read.approval, FORGED, by=actor, asked="button")
        return discord.whispered("There is no such question.")
    decided = decision(read.approval, by=actor)
    if decided.refused:
        return discord.whispered(f"Nothing was done. {decided.refused}.")
    done = decided.approval
    return discord.closed(f"{done.subject}: {done.get_status_display().lower()} by {actor.name}.")


def _actor(presser: str) -> Actor:
    name = discord_users().get(presser)
    user = get_user_model().objects.filter(username=name).first() if name else None
    return Actor("discord", user) if user is not None else Actor("discord", account=presser[:20])


def _problem(status: HTTPStatus, code: str, detail: str) -> JsonResponse:
    return JsonResponse(problem(status, code, detail), status=status, content_type=PROBLEM_TYPE)
