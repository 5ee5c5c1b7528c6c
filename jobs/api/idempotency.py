"""The `Idempotency-Key` of a request that changes something: the same request is done once.

The key is stored in the request's own transaction. A second request with it waits for the first;
what was refused left nothing behind, so it can be sent again with the same key.
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
from tenants.models import Firm

REPLAYED = "Idempotent-Replayed"


def done_once(
    request: Request, access: Access, handler: Callable[..., Response]
) -> Callable[..., Response]:
    """Return `handler`, or what answers again when its caller has sent the same request before.

    Must run in the request's transaction and scope.

    Raises:
        Refusal: 400 for a key that is not valid, 409 for one that was used for another request.
    """
    key = request.headers.get(IDEMPOTENCY_KEY)
    if key is None:
        return handler
    if not re.fullmatch(KEY_PATTERN, key):
        message = "Give 1 to 200 visible characters of ASCII."
        fault = Fault(IDEMPOTENCY_KEY, "invalid", message)
        raise Refusal(HTTPStatus.BAD_REQUEST, "invalid", message, [fault])
    mine = IdempotentRequest(
        firm_id=min(access.roles) if access.roles else Firm.objects.system().pk,
        user=cast("Any", request.user),
        key=key,
        digest=_digest(request),
    )
    rows = IdempotentRequest.objects.unscoped("the caller's own keys")
    # The insert waits for a request in progress that has the same key.
    rows.bulk_create([mine], ignore_conflicts=True)
    stored = rows.get(firm_id=mine.firm_id, user_id=mine.user_id, key=key)
    if stored.pk == mine.pk:
        return _storing(stored, handler)
    if stored.digest != mine.digest:
        message = "This key was used for another request; nothing was done."
        raise Refusal(HTTPStatus.CONFLICT, "idempotency_key_reused", message)
    return lambda *_, **__: Response(
        stored.answer, stored.answer_status, headers={REPLAYED: "true"}
    )


def _digest(request: Request) -> str:
    said = [request.method, request.get_full_path(), request.data]
    return hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def _storing(row: IdempotentRequest, handler: Callable[..., Response]) -> Callable[..., Response]:
    def answer(*args: Any, **kwargs: Any) -> Response:
        response = handler(*args, **kwargs)
        row.answer_status = response.status_code
        row.answer = json.loads(JSONRenderer().render(response.data))
        row.save(update_fields=["answer_status", "answer"])
        return response

    return answer
