"""The jobs that move a mailbox's history cursor, or renew its watch, run one after the other."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from uuid import UUID

import pytest

from jobs import registry
from jobs.states import CountedBy
from mail.services.queueing import LABELS_TYPE, WATCH_TYPE

ACCOUNT = UUID(int=7)


@pytest.mark.parametrize(
    "job_type", ["sync", "history.sync.gmail", "backfill.gmail", LABELS_TYPE, WATCH_TYPE]
)
def test_all_that_syncs_a_mailbox_has_its_one_lock(job_type: str) -> None:
    declared = registry.get(job_type)
    payload: Any = SimpleNamespace(account_id=ACCOUNT)
    assert declared.lock_key is not None
    assert declared.lock_key(payload) == f"gmail-sync:{ACCOUNT}"
    assert (declared.lock_limit, declared.lock_counted_by) == (1, CountedBy.FIRM)
