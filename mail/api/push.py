"""`/webhooks/gmail/`: Pub/Sub pushes Gmail's notifications here; no session, no API key."""

from __future__ import annotations

import functools
from http import HTTPStatus

import structlog
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_POST

from interfaces.api.problems import PROBLEM_TYPE, Fault, problem
from mail.conf import certificates_address, gmail_simulator_store, push_subscription, uses_google
from mail.gmail.certificates import FetchedCertificates
from mail.gmail.connect import local_gmail
from mail.gmail.errors import GmailUnavailable
from mail.gmail.push import (
    Certificates,
    PushMalformed,
    PushRefused,
    check_token,
    read_notification,
)
from mail.services.syncing.push import take_notification

# A notification of Gmail's has about 400 bytes.
MAX_BODY_BYTES = 64 * 1024

_log = structlog.get_logger("mail")


@csrf_exempt
@require_POST
def gmail_push(request: HttpRequest) -> HttpResponse:
    """Take one notification, which Pub/Sub repeats until the answer is 2xx."""
    # Reading a limited length keeps a body of unknown length from being read to its end.
    body = request.read(MAX_BODY_BYTES + 1)
    if len(body) > MAX_BODY_BYTES:
        return _refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too_large", "The body is too large.")
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    try:
        bearer = token.strip() if scheme.lower() == "bearer" else ""
        check_token(bearer, push_certificates(), push_subscription())
        notification = read_notification(body)
    except PushRefused as refused:
        answer = _refuse(HTTPStatus.UNAUTHORIZED, refused.reason, "The token is not accepted.")
        answer["WWW-Authenticate"] = "Bearer"
        return answer
    except PushMalformed as malformed:
        fault = Fault(malformed.field, "invalid", malformed.message)
        return _refuse(HTTPStatus.BAD_REQUEST, "malformed", "This is no notification.", fault)
    except GmailUnavailable as error:
        return _refuse(HTTPStatus.SERVICE_UNAVAILABLE, "no_certificates", str(error))
    effects = take_notification(notification)
    outcome = {effect.value: count for effect, count in effects.items()} or {"unknown": 1}
    _log.info("mail.push", pubsub_message_id=notification.message_id, **outcome)
    return HttpResponse(status=HTTPStatus.OK)


def push_certificates() -> Certificates:
    """Return the source of the certificates: Google, or the local Gmail instead."""
    if uses_google():
        return _fetched(certificates_address())
    return local_gmail(gmail_simulator_store())


@functools.cache
def _fetched(address: str) -> FetchedCertificates:
    return FetchedCertificates(address)


def _refuse(status: HTTPStatus, code: str, detail: str, *faults: Fault) -> HttpResponse:
    _log.warning("mail.push_refused", reason=code, status=status.value)
    body = problem(status, code, detail, faults)
    return JsonResponse(body, status=status, content_type=PROBLEM_TYPE)
