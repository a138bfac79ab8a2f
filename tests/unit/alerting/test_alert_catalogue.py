from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from workers.alerting.catalogue import ALERTS
from workers.alerting.document import alerts_page
from workers.alerting.records import alert_record, verdict_id
from workers.alerting.spec import Alert
from workers.cli import COMMANDS
from workers.commands.rules import command
from workers.metrics.document import metrics_page
from workers.serde import schemas

GROUPS = {"dlq", "fidelity", "schemas", "topics"}
ROOT = Path(__file__).parents[3]
PATH_SUBJECT = {"service": "chat", "release": None, "sdk": None, "sdk_version": None, "path": "web", "schema_id": "7"}


def test_a_verdict_id_is_the_published_one() -> None:
    assert verdict_id("version_lag", "acme", "act-19", "chat", "eu-1") == "f9b8304610dd27debbd935a35ffa649b"


def test_an_id_tells_null_from_empty_and_from_the_word() -> None:
    assert len({verdict_id("a", None), verdict_id("a", ""), verdict_id("a", "null"), verdict_id("a")}) == 4


def record(**changes: object) -> dict[str, object]:
    return alert_record(
        "PathFirstSeen",
        subject=PATH_SUBJECT | {name: str(value) for name, value in changes.items()},
        state="firing",
        starts_at=1_790_000_000_000,
        tenant="acme",
        service="chat",
        policy="0123456789ab",
    )


def test_the_same_subject_gives_the_same_id_in_any_order_and_another_one_another() -> None:
    turned = alert_record(
        "PathFirstSeen",
        subject=dict(reversed(PATH_SUBJECT.items())),
        state="resolved",
        starts_at=0,
        revision=1,
        tenant="acme",
        policy="",
    )
    assert turned["verdict_id"] == record()["verdict_id"]
    assert turned["subject"] == record()["subject"]
    assert record(path="batch")["verdict_id"] != record()["verdict_id"]


def test_the_id_covers_name_tenant_subject_and_episode_with_nulls_kept() -> None:
    parts = ["PathFirstSeen", "acme", "chat", None, None, None, "web", "7", 0]
    assert record()["verdict_id"] == verdict_id(*parts)


def test_an_alert_record_has_exactly_the_fields_of_its_schema() -> None:
    schema = json.loads((ROOT / "schemas/alerts/v1.avsc").read_text(encoding="utf-8"))
    assert list(record()) == [field["name"] for field in schema["fields"]]
    assert schemas.load("alerts")["name"] == schema["name"]


def test_a_subject_that_is_not_the_catalogues_is_refused() -> None:
    with pytest.raises(ValueError, match="the subject of PathFirstSeen is service, release"):
        alert_record("PathFirstSeen", subject={"service": "chat"}, state="firing", starts_at=0, policy="")
    with pytest.raises(ValueError, match="decided by Prometheus"):
        alert_record("KeyMismatch", subject={"topic": "turns"}, state="firing", starts_at=0, policy="")


@pytest.mark.parametrize("alert", ALERTS.values(), ids=lambda alert: alert.name)
def test_every_alert_has_a_runbook_that_says_what_to_do(alert: Alert) -> None:
    page = (ROOT / alert.runbook()).read_text(encoding="utf-8")
    assert page.startswith(f"# {alert.name}\n")
    for section in ("## Meaning", "## Look first", "## Likeliest causes", "## Our possible error", "## Closing"):
        assert f"\n{section}\n" in page, f"{alert.runbook()} lacks {section}"


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/runbooks/*.md")), ids=lambda page: page.stem)
def test_a_runbook_names_only_commands_that_exist(page: Path) -> None:
    for name, word in re.findall(r"engram-stream ([a-z-]+)(?: ([a-z]+))?", page.read_text(encoding="utf-8")):
        assert name in COMMANDS
        if name in GROUPS:
            group = importlib.import_module(f"workers.commands.{name}").command
            assert word in group.commands, f"engram-stream {name} {word} does not exist"


def test_no_runbook_is_left_without_its_alert() -> None:
    assert {page.stem for page in (ROOT / "docs/runbooks").glob("*.md")} == set(ALERTS)


@pytest.mark.parametrize(("page", "text"), [("docs/alerts.md", alerts_page()), ("docs/metrics.md", metrics_page())])
def test_the_generated_page_is_current(page: str, text: str) -> None:
    assert (ROOT / page).read_text(encoding="utf-8") == text, "write it with `python -m workers.alerting.document`"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(command, arguments)


def test_rules_go_to_standard_output_and_follow_the_policy(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("n_min: 77\nown_lag_max: 10m\nkeep_firing_for: 45m\n", encoding="utf-8")
    result = run("--policy", str(policy), "--runbooks", "https://runbooks.example/{alert}/")
    assert result.exit_code == 0
    for text in (">= 77", "> 600", "keep_firing_for: 45m", "https://runbooks.example/OffsetsLost/"):
        assert text in result.stdout


def test_check_tells_a_current_file_from_a_stale_and_from_a_missing_one(tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    missing = run("--check", "--output", str(rules))
    assert (missing.exit_code, missing.stdout) == (3, "")
    assert "is missing; render it with" in missing.stderr
    assert run("--output", str(rules)).exit_code == 0
    assert run("--check", "--output", str(rules)).exit_code == 0
    rules.write_text(rules.read_text(encoding="utf-8").replace("1m", "9m"), encoding="utf-8")
    stale = run("--check", "--output", str(rules))
    assert stale.exit_code == 3
    assert "differs" in stale.stderr


def test_wrong_usage_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    assert run("--check").exit_code == 2
    rules = tmp_path / "rules.yaml"
    assert run("--output", str(rules), "--runbooks", "https://runbooks.example/").exit_code == 2
    assert not rules.exists()
