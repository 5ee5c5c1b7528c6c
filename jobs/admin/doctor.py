"""The queue doctor's page, for platform staff: its findings and how to fix them."""

from __future__ import annotations

from django.contrib import admin
from django.core.exceptions import PermissionDenied
from django.db import connection
from django.http import HttpRequest
from django.template.response import TemplateResponse

from jobs.queries.doctor import Severity, examine
from tenants.scope import sees_all_firms

# Seconds for the check that reads the whole database file: a page must not take longer.
LIMITS = {"soundness": 0.2}
SEVERITY_LABELS: dict[Severity, str] = {
    Severity.PROBLEM: "danger",
    Severity.NOTICE: "warning",
    Severity.OK: "success",
}


def queue_doctor(request: HttpRequest) -> TemplateResponse:
    """Examine the database, without changing it, and show the findings.

    Raises:
        PermissionDenied: the user does not see every firm.
    """
    if not sees_all_firms():
        raise PermissionDenied("The queue doctor is for platform staff.")
    examination = examine(LIMITS)
    context = {
        **admin.site.each_context(request),
        "title": "Queue doctor",
        "examination": examination,
        "database": connection.display_name,
        "ill": [
            (finding, SEVERITY_LABELS[finding.severity])
            for finding in examination.findings
            if finding.severity is not Severity.OK
        ],
        "well": examination.of(Severity.OK),
        "problems": len(examination.of(Severity.PROBLEM)),
    }
    return TemplateResponse(request, "admin/queue_doctor.html", context)
