"""A worker's list of started jobs is read back as it was stored, also from a fixture."""

from __future__ import annotations

import pytest
from django.core import serializers
from uuid_utils.compat import uuid7

from jobs.models import Worker
from tests.factories.jobs import WorkerFactory

pytestmark = [pytest.mark.django_db, pytest.mark.req("W-05")]


@pytest.mark.parametrize("count", [0, 1, 300])
def test_ids_survive_the_table_and_a_fixture(count: int) -> None:
    ids = [str(uuid7()) for _ in range(count)]
    worker = WorkerFactory(running=ids)
    assert Worker.objects.get(pk=worker.pk).running == ids
    text = serializers.serialize("json", Worker.objects.all())
    Worker.objects.all().delete()
    for restored in serializers.deserialize("json", text):
        restored.save()
    assert Worker.objects.get(pk=worker.pk).running == ids
