"""The `Idempotency-Key` of a request that changes something: the same request is done only once.

The key is stored in the request's own transaction. A second request with the key waits for the
first. A refused request is rolled back with its key, so it can be sent again with the same one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, cast

from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from interfaces.api.problems import Fault, Refusal
from interfaces.api.schema import IDEMPOTENCY_KEY, KEY_PATTERN
from jobs.models import IdempotentRequest
from tenants.access import Access
from tenants.api.keys import Credential
from tenants.models import Firm
from tenants.scope import all_firms

REPLAYED = "Idempotent-Replayed"
_REASON = "the caller's own requests"


def done_once(
    request: Request, access: Access, handler: Callable[..., Response]
) -> Callable[..., Response]:
    """Return `handler`, or a handler that repeats the stored answer to the same request.

    Must run in the request's transaction and scope.

    Raises:
        Refusal: 400 for a key that is not valid, 409 for one that was used for another request, or
            while the caller had other roles, who now may not be allowed to see that answer.
    """
    key = request.headers.get(IDEMPOTENCY_KEY)
    if key is None:
        return handler
    if not re.fullmatch(KEY_PATTERN, key):
        message = "Give 1 to 200 visible ASCII characters."
        fault = Fault(IDEMPOTENCY_KEY, "invalid", message)
        raise Refusal(HTTPStatus.BAD_REQUEST, "invalid", message, [fault])
    mine = IdempotentRequest(
        firm_id=_firm_of(request, access),
        user=cast("Any", request.user),
        key=key,
        digest=_digest_of_request(request) + _digest_of_roles(access),
    )
    with all_firms(_REASON):
        rows = IdempotentRequest.objects
        # The insert waits for a request in progress that has the same key.
        rows.bulk_create([mine], ignore_conflicts=True)
        stored = rows.get(firm_id=mine.firm_id, user_id=mine.user_id, key=key)
    if stored.pk == mine.pk:
        return _storing(stored, handler)
    if stored.digest != mine.digest:
        is_same = stored.digest.startswith(_digest_of_request(request))
        used = "while you had other roles" if is_same else "for another request"
        message = f"This key was used {used}; nothing was done."
        raise Refusal(HTTPStatus.CONFLICT, "idempotency_key_reused", message)
    return lambda *_, **__: Response(
        stored.answer, stored.answer_status, headers={REPLAYED: "true"}
    )


def _firm_of(request: Request, access: Access) -> int:
    """Return the firm that owns the caller's keys; it stays the same when they join or leave firms.

    An API key belongs to one firm. A session, or an API key of platform staff, belongs to none in
    particular, so the system firm owns their keys.
    """
    if isinstance(request.auth, Credential) and access.only_firm_id is not None:
        return access.only_firm_id
    return Firm.objects.system().pk


def _digest_of_request(request: Request) -> str:
    return _digest([request.method, request.get_full_path(), request.data])


def _digest_of_roles(access: Access) -> str:
    return _digest(access.roles and sorted((pk, role.value) for pk, role in access.roles.items()))


def _digest(said: object) -> str:
    """Return half of a digest, because one column holds two of them."""
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()[:32]


def _storing(row: IdempotentRequest, handler: Callable[..., Response]) -> Callable[..., Response]:
    def answer(*args: Any, **kwargs: Any) -> Response:
        response = handler(*args, **kwargs)
        row.answer_status = response.status_code
        row.answer = json.loads(JSONRenderer().render(response.data))
        with all_firms(_REASON):
            row.save(update_fields=["answer_status", "answer"])
        return response

    return answer
