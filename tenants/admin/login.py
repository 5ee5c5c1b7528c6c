"""Signing in to the admin, which an address may try in vain so often in a minute."""

from __future__ import annotations

from http import HTTPStatus

from django.contrib import admin
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import render

from interfaces.client_address import address_of
from tenants.request_counts import count_request, give_back

TRIES_PER_MINUTE = 20


def login(request: HttpRequest) -> HttpResponseBase:
    """Sign somebody in; past the bound no password is looked at, not even a right one."""
    if request.method != "POST":
        return admin.site.login(request)
    # Before the password is looked at: of tries that come at once, none is one too many.
    caller = f"login:{address_of(request)}"
    count = count_request(caller)
    if count.asked > TRIES_PER_MINUTE:
        seconds = count.seconds_left
        status = HTTPStatus.TOO_MANY_REQUESTS
        refusal = render(request, "429.html", {"seconds": seconds}, status=status)
        refusal.headers["Retry-After"] = str(seconds)
        return refusal
    answer = admin.site.login(request)
    if request.user.is_authenticated:
        give_back(caller)
    return answer
