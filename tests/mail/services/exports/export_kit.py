"""Short names for the tests of exports and erasures."""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

from jobs import testing
from mail.models import DataRequest, RequestKind
from mail.services.exports.requests import request_data, stream_zip
from tenants.audit import SERVICE
from tenants.models import Firm
from tenants.scope import all_firms
from tests.queue_kit import change

ANNA_ADDRESS = "anna@customer.example"


def requested(firm: Firm, kind: RequestKind, subject: str = "") -> DataRequest:
    """Ask for an export or an erasure; return the request, whose job is enqueued."""
    return request_data(firm, kind, subject=subject, reason="asked for", by=SERVICE)


def done(firm: Firm, kind: RequestKind, subject: str = "") -> DataRequest:
    """Ask for an export or an erasure, and run its job to the end; return the request."""
    request = requested(firm, kind, subject)
    change(request.job_id, max_attempts=1_000)
    testing.drain()
    return again(request)


def again(request: DataRequest) -> DataRequest:
    """Return the request as it is now."""
    with all_firms("test"):
        return DataRequest.objects.get(pk=request.pk)


def taken(request: DataRequest) -> io.BytesIO:
    """Return an export's zip, taken as a download does."""
    return io.BytesIO(b"".join(stream_zip(again(request), by=SERVICE)))


def zip_of(request: DataRequest) -> dict[str, bytes]:
    """Return the files of an export by name."""
    archive = zipfile.ZipFile(taken(request))
    assert archive.testzip() is None
    return {name: archive.read(name) for name in archive.namelist()}


def rows_in(files: dict[str, bytes], table: str) -> list[dict[str, Any]]:
    """Return the rows of a table of an export."""
    return [json.loads(line) for line in files.get(f"tables/{table}.jsonl", b"").splitlines()]
