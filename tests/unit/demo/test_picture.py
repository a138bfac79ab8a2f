"""The demo's numbers: what workers export, summed, and when something began."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest
from demo_numbers import BATCH, GAP, NOON, count_letters, count_turns, picture, samples

from workers.alerting.catalogue import ALERTS
from workers.demo.picture import MIX, Gap, History, take_picture
from workers.demo.rules import CONDITIONS, rules_that_hold
from workers.metrics import catalogue as m
from workers.metrics.exporter import Exporter
from workers.metrics.labels import End


def test_the_numbers_of_several_workers_are_summed_and_their_partitions_told_apart() -> None:
    def first(exporter: Exporter) -> None:
        count_turns(exporter, 10)
        for number in (0, 1, 2):
            exporter.set(m.OWN_LAG_SECONDS, 0, "turns", str(number))
        exporter.set(m.LAG_RECORDS, 4, "turns", "1")

    def second(exporter: Exporter) -> None:
        count_turns(exporter, 7, complete=False)
        count_letters(exporter, 2, "bad_utf8")
        exporter.set(m.OWN_LAG_SECONDS, 0, "turns", "3")
        exporter.set(m.LAG_RECORDS, 5, "turns", "3")

    seen = take_picture(NOON, {"worker 2": samples(second), "worker 1": samples(first)})
    assert seen.received == Counter(turns=19)
    assert (seen.ended("turns", End.PROCESSED), seen.ended("turns", End.DLQ)) == (17, 2)
    assert seen.verdicts == 17
    assert seen.gaps == {GAP: 7}
    assert seen.turns == {BATCH: 17}
    assert seen.lag == {"turns": 9}
    assert [(share.worker, share.partitions) for share in seen.shares] == [
        ("worker 1", {"turns": [0, 1, 2]}),
        ("worker 2", {"turns": [3]}),
    ]
    assert not seen.is_quiet


def test_the_mix_has_a_name_for_every_verdict() -> None:
    def fill(exporter: Exporter) -> None:
        for level in ("exact", "controlled", "partial", "unreplayable", "none"):
            count_turns(exporter, 3, level)
        exporter.inc(m.FIDELITY_TURNS, "manifest_invalid", "none", *BATCH)

    mix = picture(fill).mix
    assert set(mix) == set(MIX)
    assert mix.total() == 16


def test_waived_gaps_are_no_incident() -> None:
    def fill(exporter: Exporter) -> None:
        exporter.inc(m.FINGERPRINT_INCOMPLETE, *BATCH, GAP.field, GAP.state, "true", n=4)

    assert picture(fill).gaps == {}


def test_a_gap_begins_where_it_is_first_seen_and_turns_of_before_may_be_counted_a_little_later() -> None:
    history = History()

    def look(seconds: float, complete: int, incomplete: int) -> list[Gap]:
        def fill(exporter: Exporter) -> None:
            count_turns(exporter, complete)
            count_turns(exporter, incomplete, complete=False)

        return history.add(picture(fill, NOON + seconds))

    assert look(0, 20, 0) == []
    assert look(1, 22, 1) == [GAP]
    assert look(3, 25, 8) == []
    assert history.onsets == {GAP: (NOON + 1, 25)}
    look(9, 40, 9)
    assert history.onsets == {GAP: (NOON + 1, 25)}


def test_a_rate_is_the_mean_of_the_last_seconds_and_forgets_what_was_before() -> None:
    history = History()
    for second in range(20):
        received = 1_000 + 100 * max(0, second - 10)
        history.add(picture(partial(count_turns, n=received), NOON + second))
    assert history.rate(lambda seen: seen.received["turns"]) == 100.0


def test_there_is_no_rate_before_the_second_picture() -> None:
    history = History()
    history.add(picture(lambda exporter: count_turns(exporter, 5)))
    assert history.rate(lambda seen: seen.verdicts) == 0.0


def test_every_rule_about_producers_is_judged() -> None:
    about_producers = {
        alert.name for alert in ALERTS.values() if alert.origin == "prometheus" and alert.team == "producers"
    }
    assert set(CONDITIONS) == about_producers | {"DeadLetterOurs"}


@pytest.mark.parametrize(
    ("bad", "good", "holds"), [(2, 98, True), (1, 99, False), (1, 20, False)], ids=["above", "at the bound", "too few"]
)
def test_a_share_is_judged_by_its_bound_and_only_of_enough(bad: int, good: int, holds: bool) -> None:
    def fill(exporter: Exporter) -> None:
        count_turns(exporter, good)
        count_letters(exporter, bad, "bad_utf8")

    names = [firing.alert.name for firing in rules_that_hold(picture(fill))]
    assert names == (["DeadLetterRatio"] if holds else [])


def test_rules_come_in_the_order_in_which_they_would_fire() -> None:
    def fill(exporter: Exporter) -> None:
        count_turns(exporter, 60, "unreplayable", complete=False)
        count_turns(exporter, 40, "none")

    firing = rules_that_hold(picture(fill))
    assert [found.alert.name for found in firing] == [
        "FingerprintIncomplete",
        "FingerprintIncompleteMass",
        "FidelityUnreplayable",
        "ManifestMissing",
    ]
    assert firing[-1].subject == "shop: 40.00%, bound 5%"


def test_numbers_read_while_a_batch_was_being_counted_are_known_as_such() -> None:
    def between(exporter: Exporter) -> None:
        count_turns(exporter, 10)
        exporter.inc(m.FIDELITY_TURNS, "graded", "exact", *BATCH)

    assert samples(partial(count_turns, n=10)).is_of_one_moment
    assert not samples(between).is_of_one_moment
