"""What is exported, what the documents say of it, and what alerts ask for are the same metrics."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
import yaml
from prometheus_client import REGISTRY

from config.metrics import QueueCollector, WatchCollector
from jobs.execution import metrics, telemetry
from jobs.queries.held_back import HELD_BACK, INTENDED
from jobs.queries.stats import JobCounts, QueueStats
from jobs.queries.why_waiting import WaitCode
from tests.architecture.tree import ROOT

pytestmark = pytest.mark.req("W-07", "O-05")

NOW = datetime(2026, 1, 1, tzinfo=UTC)
COLLECTOR = QueueCollector(
    stats=QueueStats(
        generated_at=NOW,
        categories=[JobCounts("sync", NOW)],
        totals=JobCounts(None, NOW),
        workers=0,
    ),
    breakers=[("sync", "open", 2)],
    schedules_late=0,
    oldest_snapshot=0.0,
)

WATCHES = WatchCollector(watches={"live": 3, "failed": 1, "lapsed": 0}, push_age=7.0)


def exported() -> dict[str, set[str]]:
    """Return the labels of every metric of ours, by its name as it is queried."""
    assert metrics.ATTEMPTS
    families = [
        *(family for family in REGISTRY.collect() if family.name.startswith("mailroom_")),
        *COLLECTOR.collect(),
        *WATCHES.collect(),
    ]
    return {
        f"{family.name}_total" if family.type == "counter" else family.name: {
            label for sample in family.samples for label in sample.labels if label != "le"
        }
        for family in families
    }


def documented() -> dict[str, set[str]]:
    """Return the labels that operations.md gives to each metric."""
    text = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(mailroom_\w+)` \|([^|]*)\|", text, re.MULTILINE)
    return {name: set(re.findall(r"\w+", labels)) for name, labels in rows}


def alerts() -> list[dict[str, Any]]:
    """Return the alerting rules that come with the service."""
    text = (ROOT / "docs" / "alerts.yml").read_text(encoding="utf-8")
    (group,) = yaml.safe_load(text)["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def test_every_metric_is_documented_with_its_labels() -> None:
    assert exported().keys() == documented().keys()
    for name, labels in exported().items():
        # A metric that was not measured yet has no sample that shows its labels.
        assert labels <= documented()[name], name


def test_every_metric_has_an_alert_and_every_alert_a_metric() -> None:
    asked = {
        re.sub(r"_bucket$", "", name)
        for rule in alerts()
        for name in re.findall(r"mailroom_\w+", rule["expr"])
    }
    assert asked == documented().keys()


def test_every_alert_says_what_to_do() -> None:
    for rule in alerts():
        assert {"summary", "action"} <= rule["annotations"].keys(), rule["alert"]
        assert rule["labels"]["severity"] in ("page", "ticket"), rule["alert"]
    names = [rule["alert"] for rule in alerts()]
    assert len(set(names)) == len(names)


def test_alerts_group_by_labels_that_the_metric_has() -> None:
    for rule in alerts():
        known = {"le"}.union(
            *(
                documented()[re.sub(r"_bucket$", "", name)]
                for name in re.findall(r"mailroom_\w+", rule["expr"])
            )
        )
        grouped = re.findall(r"by \(([^)]*)\)", rule["expr"])
        filtered = re.findall(r"\{(\w+)=", rule["expr"])
        wanted = {label.strip() for group in grouped for label in group.split(",")}
        assert wanted | set(filtered) <= known, rule["alert"]


def test_held_back_jobs_are_exported_by_their_reason() -> None:
    category = JobCounts("sync", NOW)
    category.held_back[WaitCode.PAUSED] = 7
    collector = replace(COLLECTOR, stats=replace(COLLECTOR.stats, categories=[category]))
    (family,) = (one for one in collector.collect() if one.name == "mailroom_held_back_jobs")
    values = {sample.labels["reason"]: sample.value for sample in family.samples}
    assert values == dict.fromkeys(map(str, HELD_BACK), 0) | {"paused": 7}


@pytest.mark.parametrize("alert", ["MailroomOldestWait", "MailroomBacklogGrows"])
def test_no_alert_is_raised_for_jobs_held_back_on_purpose(alert: str) -> None:
    (rule,) = (rule for rule in alerts() if rule["alert"] == alert)
    if "mailroom_oldest_wait_seconds" not in rule["expr"]:
        for code in INTENDED:
            assert code in rule["expr"]


@pytest.mark.req("T-03")
def test_no_label_names_a_firm() -> None:
    labels = set().union(*documented().values())
    assert labels == {"category", "status", "job_type", "state", "outcome", "reason"}


def grafana_queries() -> list[str]:
    """Return what the panels of the dashboard ask Prometheus for."""
    board = json.loads((ROOT / "deploy" / "grafana-dashboard.json").read_text(encoding="utf-8"))
    return [target["expr"] for panel in board["panels"] for target in panel["targets"]]


@pytest.mark.parametrize("query", grafana_queries())
def test_the_grafana_dashboard_asks_for_what_is_exported(query: str) -> None:
    names = {re.sub(r"_bucket$", "", name) for name in re.findall(r"mailroom_\w+", query)}
    assert names
    assert names <= exported().keys()
    known = {"le"}.union(*(documented()[name] for name in names))
    grouped = {
        label.strip()
        for group in re.findall(r"by \(([^)]*)\)", query)
        for label in group.split(",")
    }
    assert grouped | set(re.findall(r"\{(\w+)=", query)) <= known


def test_a_type_that_no_code_declares_has_no_label_of_its_own() -> None:
    kind = telemetry.AttemptKind(
        "somebody.elses", 1, "sync", 1, "completed", "completed", None, "w"
    )
    attempt = telemetry.FinishedAttempt("id", "c", 0.1, 0.2)
    name, labels = "mailroom_run_seconds_count", {"category": "sync", "job_type": "unknown"}
    before = REGISTRY.get_sample_value(name, labels) or 0
    metrics.measure_attempts({kind: [attempt], kind._replace(job_type="another"): [attempt]})
    assert REGISTRY.get_sample_value(name, labels) == before + 2
