"""Free ports for brokers."""

from __future__ import annotations

import random
import socket
from typing import Final

# Below the range from which Linux and macOS take the ports of outgoing connections: no client can sit on a broker's
# port while it restarts, and none can connect to itself.
_FIRST: Final = 15_000
_LAST: Final = 32_000


def free_ports(count: int) -> list[int]:
    """Return ``count`` different ports of 127.0.0.1 that nobody listens on now.

    Another process may still be faster: the caller starts again with other ports when a bind fails.
    """
    # Seeded by the system, so that processes with the same seed of their tests do not choose the same ports.
    chooser = random.SystemRandom()
    ports: set[int] = set()
    while len(ports) < count:
        port = chooser.randint(_FIRST, _LAST)
        if _is_free(port):
            ports.add(port)
    return list(ports)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
