"""How the queue's errors read in the admin."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus

from django.utils.text import capfirst

from jobs.errors import JobError, LimitInvalid, PayloadInvalid
from tenants.admin.acts import ActRefused


@contextmanager
def refusals() -> Iterator[None]:
    """Turn what the queue refuses into messages in the form that asked."""
    try:
        yield
    except PayloadInvalid as error:
        lines = [f"{fault.field}: {fault.message}" for fault in error.faults]
        raise ActRefused(*lines, field="payload", status=HTTPStatus.BAD_REQUEST) from error
    except LimitInvalid as error:
        fault = error.faults[0]
        raise ActRefused(
            f"{capfirst(fault.message)}.", field=fault.field, status=HTTPStatus.BAD_REQUEST
        ) from error
    except JobError as error:
        raise ActRefused(f"Nothing was done: {error}.") from error
