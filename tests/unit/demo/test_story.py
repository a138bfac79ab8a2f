"""The words of the demo: they follow the numbers, and name what is in the catalogues."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from click.testing import CliRunner
from demo_numbers import BATCH, GAP, NOON, count_letters, count_turns, facts, picture

from workers.alerting.catalogue import ALERTS
from workers.cli import cli
from workers.demo.alerts import SeenAlert
from workers.demo.picture import Onset, ProducerPath
from workers.demo.story import Facts, clock, tell, where_next
from workers.metrics import catalogue as m
from workers.metrics.exporter import Exporter
from workers.reasons import CATALOGUE, Reason

ROOT = Path(__file__).parents[3]


def words_of(given: Facts) -> str:
    return "\n".join(line.text for section in (*tell(given), where_next(given)) for line in section.lines)


def incident(exporter: Exporter) -> None:
    count_turns(exporter, 900, producer=ProducerPath("shop", "web"))
    count_turns(exporter, 70)
    count_turns(exporter, 31, complete=False)


def test_an_incident_is_told_with_path_part_time_and_how_many_turns() -> None:
    told = words_of(facts(picture(incident), Onset(NOON - 10, 70)))
    assert (
        f"Since {clock(NOON - 10)} the path night-batch of shop does not name its summary depth (state null): "
        "31 turns, all that this path has made since. The 70 turns before named it." in told
    )
    assert "The turns of the 1 other path name" in told


def test_a_path_that_forgets_now_and_then_is_not_told_as_one_that_always_does() -> None:
    told = words_of(facts(picture(incident), Onset(NOON - 10, 39)))
    assert "31 turns, 50% of the 62 that this path has made since" in told


def test_the_rule_that_fires_at_once_is_named_with_severity_and_runbook() -> None:
    told = words_of(facts(picture(incident)))
    assert (
        "FingerprintIncomplete (ticket, at once): shop night-batch: summary_depth is null. See docs/runbooks/" in told
    )
    assert "FingerprintIncompleteMass" not in told


@pytest.mark.parametrize(
    ("producer", "at", "told"),
    [
        pytest.param(BATCH, NOON - 11, True, id="of the path, shortly before"),
        pytest.param(BATCH, NOON - 60, False, id="of the path, long before"),
        pytest.param(BATCH, NOON, False, id="of the path, afterwards"),
        pytest.param(ProducerPath("shop", "web"), NOON - 11, False, id="of another path"),
    ],
)
def test_an_alert_of_the_stream_explains_a_gap_only_where_it_can_be_its_cause(
    producer: ProducerPath, at: float, told: bool
) -> None:
    alert = SeenAlert("PathFirstSeen", at, "acme", producer, "9.9.1")
    story = words_of(facts(picture(incident), Onset(NOON - 10, 70), [alert]))
    assert ("began to run release 9.9.1" in story) is told


def test_without_an_incident_nobody_is_accused() -> None:
    told = words_of(facts(picture(lambda exporter: count_turns(exporter, 500))))
    assert "Yes: each names all six parts" in told
    assert "No rule of deploy/prometheus/rules would raise an alert." in told
    assert "does not name" not in told


@pytest.mark.parametrize("reason", [reason for reason, entry in CATALOGUE.items() if entry.reason_class == "producer"])
def test_dead_letters_are_told_by_reason_with_the_fix_of_the_catalogue(reason: Reason) -> None:
    told = words_of(facts(picture(lambda exporter: count_letters(exporter, 17, reason))))
    assert f"17 {reason}: {CATALOGUE[reason].meaning} Fix: {CATALOGUE[reason].fix}" in told


def test_letters_of_our_own_fault_are_told_as_ours() -> None:
    told = words_of(facts(picture(lambda exporter: count_letters(exporter, 1, "processing_failed", "ours"))))
    assert "1 processing_failed (ours)" in told
    assert "DeadLetterOurs (page, at once): turns: processing_failed." in told


def test_the_mix_adds_up_and_what_is_rare_is_not_told_as_none() -> None:
    def fill(exporter: Exporter) -> None:
        count_turns(exporter, 699, "controlled")
        count_turns(exporter, 300, "none")
        count_turns(exporter, 1, "exact")

    assert "Of 1,000 verdicts: <1% exact, 70% controlled and 30% no manifest." in words_of(facts(picture(fill)))


def test_the_gravest_gap_is_told_before_the_most_frequent() -> None:
    def fill(exporter: Exporter) -> None:
        count_turns(exporter, 10)
        exporter.inc(m.FIDELITY_GAPS, "model_determinism_best_effort", n=10)
        exporter.inc(m.FIDELITY_GAPS, "input_hash_only", n=2)

    told = words_of(facts(picture(fill)))
    assert "2 times, is input_hash_only" in told
    assert "fidelity explain input_hash_only" in told


def test_a_book_that_does_not_balance_is_not_hidden() -> None:
    def fill(exporter: Exporter) -> None:
        count_turns(exporter, 10)
        exporter.set(m.CONSERVATION_DIFFERENCE, 3, "turns")

    told = words_of(facts(picture(fill)))
    assert "The books do not balance: 3 records" in told


def test_before_the_first_turn_there_is_a_story_too() -> None:
    assert "No turn has been judged yet." in words_of(facts(picture(lambda exporter: None)))


def test_the_pages_it_refers_to_exist() -> None:
    def fill(exporter: Exporter) -> None:
        incident(exporter)
        count_letters(exporter, 99, "bad_utf8")

    told = words_of(facts(picture(fill)))
    pages = set(re.findall(r"docs/[\w/-]+\.md", told))
    assert {"docs/runbooks/FingerprintIncomplete.md", "docs/runbooks/DeadLetterRatio.md"} <= pages
    assert [page for page in pages if not (ROOT / page).is_file()] == []


def test_every_alert_it_may_name_has_a_runbook() -> None:
    assert [alert.name for alert in ALERTS.values() if not (ROOT / alert.runbook()).is_file()] == []


def test_a_code_it_offers_to_explain_can_be_explained() -> None:
    def fill(exporter: Exporter) -> None:
        count_turns(exporter, 10)
        exporter.inc(m.FIDELITY_GAPS, "input_hash_only", n=2)

    commands = [line.text for line in where_next(facts(picture(fill))).lines if line.kind == "command"]
    (explain,) = [command for command in commands if " explain " in command]
    result = CliRunner().invoke(cli, explain.split()[1:])
    assert result.exit_code == 0
    assert "input_hash_only" in result.output
    assert GAP.field not in result.output
