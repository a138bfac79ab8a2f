"""Publish a turn with a replay manifest whose texts stay at home: only their hashes travel, except the user's input."""

import hashlib
import json

from first_turn import new_turn, publish


def value(content: object) -> dict:
    """Captured in full, as one JSON text."""
    return {"capture": "value", "provenance": "observed", "value": json.dumps(content)}


def hashed(content: str) -> dict:
    """Captured as evidence only."""
    digest = hashlib.sha256(content.encode()).hexdigest()
    return {"capture": "hash", "provenance": "observed", "sha256": digest}


def absent(reason: str) -> dict:
    """Known not to exist here."""
    return {"capture": "absent", "provenance": "observed", "reason": reason}


def digest(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


manifest = {
    "version": 2,
    "id": "m-1",
    "capturedAt": "2026-05-01T12:00:00Z",
    "source": {
        "provenance": "observed",
        "captureMethod": "native",
        "traceId": "4bf92f3577b34da6a3ce929d0e0e4736",
        "sourceHash": digest("the raw capture"),
    },
    "sideEffects": {
        "isolation": "isolated",
        "network": "blocked",
        "filesystem": "none",
        "externalServices": "none",
    },
    "environment": {
        "codeVersion": "9f1c2ab",
        "runtime": {"name": "cpython", "version": "3.11.7"},
        "dependencyLockHash": digest("the lock file"),
        "configurationHash": digest("the configuration"),
        "containerImageDigest": "sha256:" + digest("the image"),
    },
    "model": {
        "determinism": "best_effort",
        "provider": "example",
        "name": "example-1-2026-05-01",
        "parameters": value({"temperature": 0}),
        "seed": value(7),
    },
    "retrieval": {
        "replayMode": "not_used",
        "determinism": "guaranteed",
        "configuration": absent("no retrieval"),
        "output": absent("no retrieval"),
    },
    "tools": {
        "replayMode": "not_used",
        "callsComplete": "complete",
        "determinism": "guaranteed",
        "definitions": [],
        "calls": [],
    },
    "prompts": {
        "system": hashed("You are Ada."),
        "developer": absent("no developer prompt"),
        "input": value("What did we decide yesterday?"),
    },
}

if __name__ == "__main__":
    publish({**new_turn(), "manifest": manifest})
