"""What runs out one day: numbers of sequences, and transaction ids that vacuum does not reclaim."""

from __future__ import annotations

from collections.abc import Iterator

from jobs.doctor.finding import Finding, Severity
from jobs.doctor.safely import fetch

# Shares of what there is.
NOTICE_SHARE = 0.5
PROBLEM_SHARE = 0.8
# PostgreSQL stops assigning ids when so many are in use.
MOST_TRANSACTION_IDS = 2**31

WHY_SEQUENCE = "When a sequence is at its end, nothing can be inserted or claimed any more."
WHY_IDS = (
    "Transaction ids are used in a circle. Autovacuum reclaims old ones; where it cannot, "
    "PostgreSQL stops writing before they run out."
)

SEQUENCES = """
SELECT sequencename, coalesce(last_value, 0)::double precision / max_value
FROM pg_sequences WHERE schemaname = current_schema() ORDER BY 2 DESC, 1 LIMIT 5
"""
AGES = """
SELECT age(datfrozenxid), mxid_age(datminmxid) FROM pg_database WHERE datname = current_database()
"""


def look() -> Iterator[Finding]:
    """Say how much is left of each."""
    yield from _sequences()
    for ids, multixacts in fetch(AGES):
        yield _age("counters.transaction_ids", "transaction ids", ids)
        yield _age("counters.multixacts", "ids of row locks", multixacts)


def _sequences() -> Iterator[Finding]:
    found = fetch(SEQUENCES)
    full = [(name, share) for name, share in found if share >= NOTICE_SHARE]
    for name, share in full:
        what = f"Sequence {name} has given out {share:.0%} of its numbers."
        mend = f"ALTER SEQUENCE {name} AS bigint;  -- and the column it fills"
        yield Finding("counters.sequence", _severity(share), what, WHY_SEQUENCE, mend)
    if not full:
        what = f"The {len(found)} fullest sequences have most of their numbers left."
        yield Finding("counters.sequences", Severity.OK, what, WHY_SEQUENCE)


def _age(finding_id: str, subject: str, age: int) -> Finding:
    share = age / MOST_TRANSACTION_IDS
    what = f"{share:.0%} of all {subject} are in use."
    severity = _severity(share)
    if severity is Severity.OK:
        return Finding(finding_id, severity, what, WHY_IDS)
    mend = "VACUUM (FREEZE, VERBOSE);  -- after ending old snapshots, in this database"
    return Finding(finding_id, severity, what, WHY_IDS, mend)


def _severity(share: float) -> Severity:
    if share >= PROBLEM_SHARE:
        return Severity.PROBLEM
    return Severity.NOTICE if share >= NOTICE_SHARE else Severity.OK
