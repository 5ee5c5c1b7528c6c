"""Signing in to the admin, with a limit of failed tries a minute for each address."""

from __future__ import annotations

from http import HTTPStatus

from django.contrib import admin
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render

from tenants.throttles import address_of, count_request, uncount_request

TRIES_PER_MINUTE = 20


def login(request: HttpRequest) -> HttpResponseBase:
    """Sign the user in; over the limit no password is checked, not even a right one."""
    if request.method != "POST":
        return admin.site.login(request)
    # Counted before the check, so that tries at the same time do not exceed the limit.
    caller = f"login:{address_of(request)}"
    count = count_request(caller)
    if count.requests > TRIES_PER_MINUTE:
        seconds = count.seconds_left
        status = HTTPStatus.TOO_MANY_REQUESTS
        refusal = render(request, "429.html", {"seconds": seconds}, status=status)
        refusal.headers["Retry-After"] = str(seconds)
        return refusal
    answer = admin.site.login(request)
    # Not `request.user`: somebody who is signed in may try the passwords of others here.
    if answer.status_code == HTTPStatus.FOUND:
        uncount_request(caller)
    return answer
