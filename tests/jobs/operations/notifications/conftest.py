"""A receiver of webhooks on loopback, and an endpoint that sends to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from jobs.models import Delivery, NotificationEndpoint
from jobs.operations.endpoints import create_endpoint
from jobs.states import NotificationEvent
from tenants.models import Firm
from tenants.scope import all_firms
from tests.support.receiver import Receiver, receiver

EVERY_EVENT = list(NotificationEvent)


@pytest.fixture
def hook(settings: Any) -> Iterator[Receiver]:
    """Return a receiver to whose address webhooks may be sent."""
    with receiver() as found:
        settings.WEBHOOK_PRIVATE_HOSTS = [f"127.0.0.1:{found.port}"]
        yield found


@pytest.fixture
def endpoint(firm: Firm, hook: Receiver) -> NotificationEndpoint:
    """Return a webhook of the firm that is subscribed to every event."""
    return create_endpoint("pager", "webhook", hook.url, events=EVERY_EVENT, firm=firm)


def deliveries() -> list[Delivery]:
    """Return the deliveries, oldest first."""
    with all_firms("test"):
        return list(Delivery.objects.select_related("endpoint", "firm").order_by("pk"))
