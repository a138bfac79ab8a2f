"""The policy file: read at the start, watched, and never half applied."""

from __future__ import annotations

import logging
import os
from datetime import date
from pathlib import Path

import pytest

from workers.errors import ConfigurationError
from workers.policy_file import MAX_BYTES, PolicyFile, Reload, load_policy
from workers.processing.policy import Policy
from workers.processing.policy_reference import EXAMPLE

TODAY = date(2026, 1, 10)


class Watched:
    """A policy file with a clock that the test moves."""

    def __init__(self, path: Path) -> None:
        self.now = 0.0
        self.path = path
        self.policies = PolicyFile(path, clock=lambda: self.now, today=lambda: TODAY)

    def edit(self, text: str) -> Reload | None:
        """Write and poll two seconds later."""
        self.path.write_text(text)
        return self.later()

    def later(self) -> Reload | None:
        self.now += 2
        return self.policies.poll()

    @property
    def n_min(self) -> int:
        return self.policies.current().n_min


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    path = tmp_path / "policy.yaml"
    path.write_text("n_min: 10")
    return Watched(path)


def test_without_a_file_the_defaults_hold_for_good() -> None:
    policies = PolicyFile(None, clock=lambda: 0.0)
    assert policies.current() == Policy()
    assert policies.poll() is None


def test_an_edit_applies_at_the_next_look_and_once(watched: Watched) -> None:
    assert watched.later() is None
    assert watched.edit("n_min: 11") is Reload.APPLIED
    assert watched.n_min == 11
    assert watched.later() is None


def test_the_file_is_looked_at_once_a_second_at_most(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    watched.path.write_text("n_min: 12")
    watched.now += 0.9
    with monkeypatch.context() as patch:
        patch.setattr(Path, "stat", lambda *_, **__: pytest.fail("looked too early"))
        assert watched.policies.poll() is None
    watched.now += 0.2
    assert watched.policies.poll() is Reload.APPLIED


@pytest.mark.parametrize("text", ["n_min: -1", "n_min: [", "", "nmin: 3", "n_min: 5\nn_min: 6", "\u0000"])
def test_a_broken_edit_is_refused_once_and_loudly_and_the_old_policy_stays(
    watched: Watched, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    before = watched.policies.current()
    assert watched.edit(text) is Reload.REFUSED
    assert watched.policies.current() is before
    assert watched.later() is None
    [entry] = [entry for entry in caplog.records if entry.levelno >= logging.ERROR]
    assert str(watched.path) in entry.getMessage()
    assert before.version in entry.getMessage()
    assert watched.edit("n_min: 13") is Reload.APPLIED
    assert watched.n_min == 13


def test_a_file_that_goes_and_comes_back_is_refused_and_then_applied(watched: Watched) -> None:
    content = watched.path.read_text()
    watched.path.unlink()
    assert watched.later() is Reload.REFUSED
    assert watched.n_min == 10
    assert watched.later() is None
    assert watched.edit(content) is Reload.APPLIED


def test_a_link_turned_to_another_folder_counts_as_an_edit(tmp_path: Path) -> None:
    """As Kubernetes updates a ConfigMap: same size, and the times of the files say nothing."""
    for name, text in (("v1", "n_min: 21"), ("v2", "n_min: 22")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "policy.yaml").write_text(text)
        os.utime(tmp_path / name / "policy.yaml", ns=(0, 0))
    (tmp_path / "..data").symlink_to("v1")
    (tmp_path / "policy.yaml").symlink_to("..data/policy.yaml")
    watched = Watched(tmp_path / "policy.yaml")
    assert watched.n_min == 21
    (tmp_path / "..new").symlink_to("v2")
    (tmp_path / "..new").rename(tmp_path / "..data")
    assert watched.later() is Reload.APPLIED
    assert watched.n_min == 22


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: &x [1]\naliases: *x", "line 2, column 12: aliases (*name) are not allowed; write the value out"),
        ("caps: {count: 5}\ncaps: {depth: 3}", "line 2, column 1: this key stands here twice"),
        ("n_min: [1", "line 1, column 10: expected ',' or ']'"),
        ("? [1]\n: 2", "line 1, column 3: a key must be text"),
        ("n_min: !!python/object:os.system x", "line 1, column 8: could not determine a constructor"),
        ("[" * 2_000, "is nested too deeply"),
        ("waivers: 2026-99-01", "holds an impossible date or number"),
        ("n_min: \u0001", "holds a character that YAML forbids"),
        ("# " + "x" * MAX_BYTES, f"is larger than {MAX_BYTES} bytes"),
        ("sentinels: [null]", "sentinels[0]: must be text, got null; put the value in quotes"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_place(tmp_path: Path, text: str, problem: str) -> None:
    path = tmp_path / "policy.yaml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        PolicyFile(path)
    assert problem in str(caught.value)
    assert str(path) in str(caught.value)


def test_aliases_cannot_unfold_into_gigabytes(tmp_path: Path) -> None:
    path = tmp_path / "policy.yaml"
    levels = [f"k{n}: &k{n} [{', '.join([f'*k{n - 1}'] * 10)}]" for n in range(1, 12)]
    path.write_text("\n".join(["k0: &k0 [x]", *levels]))
    with pytest.raises(ConfigurationError, match="not allowed"):
        load_policy(path, TODAY)


@pytest.mark.parametrize("place", ["missing.yaml", "."])
def test_a_file_that_is_none_stops_the_start(tmp_path: Path, place: str) -> None:
    with pytest.raises(ConfigurationError, match=r"there is no such file; correct `policy\.file`"):
        PolicyFile(tmp_path / place)


def test_bytes_that_are_no_utf8_are_refused(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_bytes(b"n_min: 5 # \xff")
    with pytest.raises(ConfigurationError, match="not UTF-8 at byte 11"):
        load_policy(tmp_path / "policy.yaml", TODAY)


def test_the_example_of_the_page_is_a_policy(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(EXAMPLE)
    policy = load_policy(tmp_path / "policy.yaml", TODAY)
    assert "null" in policy.sentinels
    assert policy.completeness_for("acme-eu", "batch-1").depth_cap == 5_000
    assert policy.fidelity_bounds_of("support-chat").unreplayable == 0.1
