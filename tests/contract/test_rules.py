"""The alert rules against Prometheus itself: each fires when it must, is silent when it must be, and resolves."""

from __future__ import annotations

import re
import shutil
import subprocess
from datetime import timedelta
from pathlib import Path

import pytest
import yaml
from rule_scenarios import SCENARIOS, Scenario, notation
from rule_series import MINUTES, PROMETHEUS_ALERTS, Values, growing, once, ours, series, worker

from workers.alerting.catalogue import ALERTS, RECORDINGS
from workers.alerting.render import render_rules
from workers.alerting.spec import Recording
from workers.metrics.catalogue import CATALOGUE
from workers.processing.policy import FidelityBounds, Policy

RULES = Path(__file__).parents[2] / "deploy/prometheus/rules/engram.yaml"


def promtool(*arguments: str) -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.fail("promtool is not on PATH; install it with: apt-get install -y --no-install-recommends prometheus")
    done = subprocess.run([found, *arguments], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.says)
def test_prometheus_fires_exactly(scenario: Scenario, tmp_path: Path) -> None:
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump(scenario.document(RULES)), encoding="utf-8")
    promtool("test", "rules", str(file))


@pytest.mark.parametrize("name", PROMETHEUS_ALERTS)
def test_every_alert_is_seen_to_fire_and_to_resolve(name: str) -> None:
    def fires(scenario: Scenario) -> list[bool]:
        return [name in {fired for fired, _ in alerts} for _, alerts in sorted(scenario.firing.items())]

    assert any(True in seen and seen[-1] is False for seen in map(fires, SCENARIOS)), f"no scenario shows {name}"


def test_a_page_says_what_where_and_how_many(tmp_path: Path) -> None:
    document = {
        "rule_files": [str(RULES)],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {"series": name, "values": notation(values)}
                    for name, values in {**worker(), ours(): once(10, 3)}.items()
                ],
                "alert_rule_test": [
                    {
                        "eval_time": "10m",
                        "alertname": "DeadLetterOurs",
                        "exp_alerts": [
                            {
                                "exp_labels": {
                                    "severity": "page",
                                    "team": "engram",
                                    "component": "worker",
                                    "topic": "turns",
                                    "reason": "processing_failed",
                                },
                                "exp_annotations": {
                                    "summary": "Records became dead letters by our own fault.",
                                    "description": "3 records of turns became dead letters in the last 15 minutes "
                                    "for processing_failed.",
                                    "runbook_url": "docs/runbooks/DeadLetterOurs.md",
                                },
                            }
                        ],
                    }
                ],
            }
        ],
    }
    file = tmp_path / "test.yaml"
    file.write_text(yaml.safe_dump(document), encoding="utf-8")
    promtool("test", "rules", str(file))


def test_the_shipped_rule_file_is_what_the_catalogue_and_the_default_policy_give() -> None:
    assert RULES.read_text(encoding="utf-8") == render_rules(Policy()), (
        f"render it with `engram-stream rules --output {RULES.relative_to(Path.cwd())}`"
    )


def test_prometheus_accepts_the_rules_whatever_the_policy_says(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    extreme = Policy(
        n_min=1,
        own_lag_max=timedelta(minutes=90),
        keep_firing_for=timedelta(),
        fidelity_bounds=FidelityBounds(unreplayable=0.0, invalid=1e-7),
        fidelity_bounds_by_service={"a.b:c/d-e_f": FidelityBounds(unreplayable=1.0), "g": FidelityBounds(missing=None)},
    )
    file.write_text(render_rules(extreme), encoding="utf-8")
    promtool("check", "rules", str(file))


def test_a_service_may_have_bounds_of_its_own_and_an_alert_may_be_off(tmp_path: Path) -> None:
    policy = Policy(
        fidelity_bounds=FidelityBounds(unreplayable=0.05, invalid=None, missing=0.05),
        fidelity_bounds_by_service={"chat.a": FidelityBounds(unreplayable=0.3), "chat.b": FidelityBounds(missing=None)},
    )

    def turns(service: str, status: str, level: str) -> str:
        return series("engram_fidelity_turns_total", service=service, path="web", status=status, level=level)

    data: dict[str, Values] = {}
    for service in ("chat.a", "chat.b", "chatxa"):
        data |= {
            turns(service, "graded", "exact"): growing((MINUTES, 40)),
            turns(service, "graded", "unreplayable"): growing((MINUTES, 10)),
            turns(service, "manifest_invalid", "none"): growing((MINUTES, 25)),
            turns(service, "no_manifest", "none"): growing((MINUTES, 25)),
        }
    rules = tmp_path / "rules.yaml"
    rules.write_text(render_rules(policy), encoding="utf-8")
    assert "FidelityInvalid" not in rules.read_text(encoding="utf-8")
    fired = (
        ("FidelityUnreplayable", {"service": "chat.b"}),
        ("FidelityUnreplayable", {"service": "chatxa"}),
        ("ManifestMissing", {"service": "chat.a"}),
        ("ManifestMissing", {"service": "chatxa"}),
    )
    file = tmp_path / "test.yaml"
    scenario = Scenario("bounds of single services", data, {5: (), 60: fired})
    file.write_text(yaml.safe_dump(scenario.document(rules)), encoding="utf-8")
    promtool("test", "rules", str(file))


def test_the_scrape_configuration_of_the_readme_is_valid(tmp_path: Path) -> None:
    readme = (RULES.parents[2] / "README.md").read_text(encoding="utf-8")
    scraping = next(block for block in re.findall(r"```yaml\n(.*?)```", readme, re.DOTALL) if "scrape_configs" in block)
    (tmp_path / "rules").mkdir()
    shutil.copy(RULES, tmp_path / "rules")
    config = tmp_path / "prometheus.yml"
    config.write_text(scraping, encoding="utf-8")
    assert "rule files" in promtool("check", "config", str(config))


def test_every_query_of_the_runbooks_is_one_that_prometheus_accepts_on_metrics_that_exist(tmp_path: Path) -> None:
    pages = (RULES.parents[3] / "docs/runbooks").glob("*.md")
    blocks = [
        block for page in pages for block in re.findall(r"```promql\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    ]
    queries = [query for block in blocks for query in block.splitlines()]
    assert len(queries) > len(PROMETHEUS_ALERTS)
    for metric in re.findall(r"\bengram_[a-z0-9_]+", "\n".join(queries)):
        assert metric in CATALOGUE, f"{metric} does not exist"
    rules = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(queries)]
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "runbooks", "rules": rules}]}), encoding="utf-8")
    promtool("check", "rules", str(file))


EXPRESSIONS = {rule.name: rule.expression for rule in RECORDINGS} | {
    alert.name: alert.expression(Policy()) or "" for alert in ALERTS.values() if alert.expression is not None
}
CLOSED: dict[str, set[str]] = {}
for _metric in CATALOGUE.values():
    for _label, _values in _metric.labels:
        if isinstance(_values, tuple):
            CLOSED.setdefault(_label, set()).update(_values)
RECORDED = {rule.name: rule.labels for rule in RECORDINGS}


@pytest.mark.parametrize("name", EXPRESSIONS)
def test_a_rule_reads_only_metrics_labels_and_values_that_exist(name: str) -> None:
    selectors = re.findall(r"\b((?:engram|process)[_:][a-z0-9_:]+)(?:\{([^}]*)\})?", EXPRESSIONS[name])
    assert selectors
    for metric, matchers in selectors:
        if metric == "process_start_time_seconds":
            continue
        declared = dict(CATALOGUE[metric].labels) if metric in CATALOGUE else dict.fromkeys(RECORDED[metric])
        for label, value in re.findall(r'(\w+)!?="([^"]*)"', matchers):
            assert label in declared, f"{metric} has no label {label}"
            assert value in CLOSED[label], f"{label} is never {value}"


@pytest.mark.parametrize("rule", RECORDINGS, ids=lambda rule: rule.name)
def test_a_recording_keeps_only_labels_that_its_metric_has(rule: Recording) -> None:
    read = set(re.findall(r"\bengram_[a-z0-9_]+", rule.expression))
    assert read
    for metric in read:
        assert set(rule.labels) <= {*CATALOGUE[metric].label_names, "job", "instance"}
