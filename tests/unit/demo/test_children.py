"""The demo's processes, and the command where something is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from workers.demo.children import Child
from workers.errors import EngramError

COMMAND = Path(sys.executable).with_name("engram-stream")


def test_a_process_that_ends_is_told_with_its_code_and_the_end_of_its_log(tmp_path: Path) -> None:
    child = Child("worker 1", ["worker", "--config", "not-there.toml"], {}, tmp_path)
    child.check_running()
    child.finish_stop()
    with pytest.raises(EngramError, match=r"(?s)worker 1 ended with exit code 2; its log ends:.*not-there\.toml"):
        child.check_running()
    child.begin_stop()
    child.finish_stop()


def test_settings_of_the_callers_environment_do_not_reach_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGRAM_KAFKA__GROUP_ID", "of-the-caller")
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", "of-the-caller:1")
    child = Child("check", ["check-config"], {"ENGRAM_WORKER__DATADIR": "of-the-demo"}, tmp_path)
    child.finish_stop()
    assert "of-the-demo" in child.log()
    assert "of-the-caller" not in child.log()


def test_without_maven_and_a_cached_kafka_the_command_says_what_to_install_and_leaves_nothing(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\necho 'openjdk version \"17.0.1\"' >&2\n")
    java.chmod(0o755)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    environment = os.environ | {
        "PATH": str(java.parent),
        "XDG_CACHE_HOME": str(tmp_path / "cache"),
        "TMPDIR": str(temporary),
    }
    done = subprocess.run([COMMAND, "demo"], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "mvn is not on the PATH" in done.stderr
    assert "apt-get install" in done.stderr
    assert list(temporary.iterdir()) == []
