"""A port of this machine that leads to another while it is open: a server that goes away and comes back."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

from workers.testing.local_kafka.ports import free_ports

_HOST = "127.0.0.1"


class Gate:
    """Closed at first: connections are refused. A context manager, closed at its end."""

    def __init__(self, target: int) -> None:
        """Lead to the port ``target``."""
        self.port = free_ports(1)[0]
        self._target = target
        self._listener: socket.socket | None = None
        self._connections: set[socket.socket] = set()

    def open(self) -> None:
        """Let connections through from now on."""
        self._listener = socket.create_server((_HOST, self.port))
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def close(self) -> None:
        """Break every connection, and refuse new ones."""
        listener, self._listener = self._listener, None
        for connection in [*self._connections, *([] if listener is None else [listener])]:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()
        self._connections.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = listener.accept()
                server = socket.create_connection((_HOST, self._target))
                self._connections |= {client, server}
                for source, sink in ((client, server), (server, client)):
                    threading.Thread(target=_pass_on, args=(source, sink), daemon=True).start()


def _pass_on(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while chunk := source.recv(65_536):
            sink.sendall(chunk)
        sink.shutdown(socket.SHUT_WR)
