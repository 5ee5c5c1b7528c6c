"""The URLs of mail, below /api/v1/mail/."""

from __future__ import annotations

from django.urls import path

from mail.api.accounts import Accounts

urlpatterns = [
    path("accounts/", Accounts.as_view({"get": "list"})),
    path("accounts/<uuid:pk>/", Accounts.as_view({"get": "show"})),
    path("accounts/<uuid:pk>/sync/", Accounts.as_view({"post": "sync"})),
    path("accounts/<uuid:pk>/activate/", Accounts.as_view({"post": "activate"})),
    path("accounts/<uuid:pk>/suggest-only/", Accounts.as_view({"post": "suggest_only"})),
    path("accounts/<uuid:pk>/pause/", Accounts.as_view({"post": "pause"})),
    path("accounts/<uuid:pk>/resume/", Accounts.as_view({"post": "resume"})),
    path("accounts/<uuid:pk>/disconnect/", Accounts.as_view({"post": "disconnect"})),
]
