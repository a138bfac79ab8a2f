"""The process between us and one broker's JVM, so that no JVM outlives whoever started it.

Run as a script: ``python -I guard.py FOLDER LOG COMMANDS``; COMMANDS is a JSON list of command lines, run one after the
other as long as they succeed. Its standard input is a pipe held by the owner:

- ``stop`` or ``kill`` and a line end: SIGTERM or SIGKILL to the JVM, the data stays;
- end of file: the owner is gone, whatever killed it; SIGKILL to the JVM, and FOLDER is removed.

It exits with the status of the last JVM. On Linux the kernel kills the JVM when the guard itself is killed: the
parent-death signal is tied to the thread that forked, and the guard has just one, which the owner cannot promise.
Standard library only.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import shutil
import signal
import subprocess
import sys
from pathlib import Path

PR_SET_PDEATHSIG = 1
STOP = b"stop\n"
KILL = b"kill\n"


def main(folder: str, log: str, commands: str) -> int:
    """Run the JVMs until they end by themselves or the owner asks or vanishes; return the last exit status."""
    # Ctrl-C and a closed terminal are for the owner to handle.
    for ignored in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(ignored, signal.SIG_IGN)
    child_ended = _wake_on_child()
    status = 0
    for command in json.loads(commands):
        status = _run(command, folder, log, child_ended)
        if status != 0:
            break
    return status


def _run(command: list[str], folder: str, log: str, child_ended: int) -> int:
    with Path(log).open("ab") as output:
        jvm = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            preexec_fn=_die_with_parent,
        )
    while jvm.poll() is None:
        ready, _, _ = select.select([sys.stdin.fileno(), child_ended], [], [])
        if child_ended in ready:
            os.read(child_ended, 4096)
        if sys.stdin.fileno() in ready:
            order = os.read(sys.stdin.fileno(), 4096)
            if not order:
                jvm.kill()
                jvm.wait()
                _remove(folder)
            elif order.endswith(KILL):
                jvm.kill()
            else:
                jvm.terminate()
    return jvm.returncode if jvm.returncode >= 0 else 128 - jvm.returncode


def _wake_on_child() -> int:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return reading


def _die_with_parent() -> None:
    for restored in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(restored, signal.SIG_DFL)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _remove(folder: str) -> None:
    # The guards of the other brokers remove the same folder at the same time: the last one finds nobody writing.
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
