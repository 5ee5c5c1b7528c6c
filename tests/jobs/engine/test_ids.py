"""A worker's list of started jobs comes back as it was stored, by way of fixtures too."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.core import serializers
from django.utils import timezone
from uuid_utils.compat import uuid7

from jobs.models import Worker

pytestmark = [pytest.mark.django_db, pytest.mark.req("W-05")]


@pytest.mark.parametrize("count", [0, 1, 300])
def test_ids_survive_the_table_and_a_fixture(count: int) -> None:
    ids = [str(uuid7()) for _ in range(count)]
    worker = Worker.objects.create(
        host="h", pid=1, version="1", concurrency=1, running=ids,
        lease_expires_at=timezone.now() + timedelta(hours=1),
    )  # fmt: skip
    assert Worker.objects.get(pk=worker.pk).running == ids
    text = serializers.serialize("json", Worker.objects.all())
    Worker.objects.all().delete()
    for restored in serializers.deserialize("json", text):
        restored.save()
    assert Worker.objects.get(pk=worker.pk).running == ids
