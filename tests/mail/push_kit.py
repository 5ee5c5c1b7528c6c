"""Pushes as Pub/Sub sends them to the view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpResponse
from django.test import Client

from mail.gmail.simulator.api import GmailSimulator
from mail.gmail.simulator.push import envelope

AUDIENCE = "https://mail.acme.example/webhooks/gmail/"
SERVICE_ACCOUNT = "push@project.iam.example"
TOPIC = "projects/acme/topics/gmail"
PATH = "/webhooks/gmail/"


@dataclass
class Pusher:
    """Signs with the simulator's key and pushes to the view."""

    simulator: GmailSimulator

    def token(self, **claims: object) -> str:
        """Return a token that is accepted, with some claims replaced."""
        return self.simulator.sign_push(AUDIENCE, SERVICE_ACCOUNT, claims)

    def push(
        self,
        address: str,
        history_id: int | str,
        message_id: str = "1",
        *,
        token: str | None = None,
    ) -> HttpResponse:
        """Push one notification."""
        body = envelope(address, history_id, message_id)
        return self.send(body, token=self.token() if token is None else token)

    def send(
        self, body: bytes, *, token: str = "", headers: Mapping[str, str] | None = None
    ) -> Any:
        """Post any body."""
        given = {"Authorization": f"Bearer {token}"} if token else {}
        return Client(enforce_csrf_checks=True).post(
            PATH, body, content_type="application/json", headers={**given, **(headers or {})}
        )
