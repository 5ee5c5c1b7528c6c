"""How the queue's errors read on the command line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from interfaces.commands import NotFound, Refused
from jobs.errors import JobError, LimitInvalid, PayloadInvalid, UnknownJob
from tenants.errors import TenantError


@contextmanager
def refusals() -> Iterator[None]:
    """Turn what the queue refuses into exit 1, what it does not find into exit 3."""
    try:
        yield
    except PayloadInvalid as error:
        lines = [f"  {fault.field}: {fault.message} ({fault.code})" for fault in error.faults]
        message = "\n".join([f"payload of {error.job_type} refused:", *lines])
        raise Refused(message, code=error.code, errors=error.errors) from error
    except LimitInvalid as error:
        raise Refused(str(error), code=error.code, errors=error.errors) from error
    except UnknownJob as error:
        raise NotFound(str(error)) from error
    except (JobError, TenantError) as error:
        raise Refused(str(error), code=error.code) from error
