"""The processes of `a2b serve --workers N`, which serve on one port: forked before anything is opened."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import time

WATCH_SECONDS = 0.5
"""Pause between two checks that all processes of the group run."""

DRAIN_SECONDS = 10.0
"""How long requests under way may take to finish after a signal: several times the limit of a search."""

CLEAN_SECONDS = 1.0
"""How long closing all connections may take after that: clients that read nothing are not waited for."""

PATIENCE_SECONDS = 1.5
"""How long threads may take after that before the process exits in spite of them: every write is a transaction."""

STOP_SECONDS = DRAIN_SECONDS + CLEAN_SECONDS + PATIENCE_SECONDS + 0.5
"""How long the other processes may take to end after SIGTERM, before SIGKILL."""


class WorkerError(Exception):
    """A process of the group ended unexpectedly, or the address to serve on is in use; the message names it."""


def check_address_free(host: str, port: int) -> None:
    """Raise WorkerError when another program serves on an address: processes that share a port do not get this
    error."""
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            with socket.socket(family, kind, protocol) as listener:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                listener.bind(address)
    except OSError as error:
        raise WorkerError(
            f"cannot serve on {host} port {port}: {error.strerror}; name another (--host, --port)"
        ) from None


class Workers:
    """The processes of a group, as one of them sees it: the first one has all others as `children`. `number` counts
    them from 0."""

    def __init__(self, count: int) -> None:
        """Fork `count` - 1 processes, each of which continues after this call."""
        self._parent = os.getpid()
        self._reaping = threading.Lock()
        self.number = 0
        self.is_shared = count > 1
        self.children: list[int] = []
        for number in range(1, count):
            child = os.fork()
            if child == 0:
                self.children, self.number = [], number
                return
            self.children.append(child)

    @property
    def is_first(self) -> bool:
        """Whether this is the process that forked the others."""
        return os.getpid() == self._parent

    async def watch(self) -> None:
        """Run until cancelled. Raises WorkerError when another process of the group has ended."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            if not self.is_first and os.getppid() != self._parent:
                raise WorkerError("the first process of the group has ended")
            self._check_children()

    def _check_children(self) -> None:
        with self._reaping:
            for child in self.children:
                pid, status = os.waitpid(child, os.WNOHANG)
                if pid:
                    self.children.remove(child)
                    raise WorkerError(f"{_cause(os.waitstatus_to_exitcode(status))}, so all of them end")

    def terminate(self) -> None:
        """Send the other processes SIGTERM, and return at once."""
        self._send(signal.SIGTERM)

    def stop(self) -> None:
        """End the other processes, by SIGKILL those that do not end in STOP_SECONDS."""
        self.terminate()
        deadline = time.monotonic() + STOP_SECONDS
        while self._running() and time.monotonic() < deadline:
            time.sleep(0.01)
        self.kill()

    def kill(self) -> None:
        """End the other processes at once, from any thread: every write is a transaction."""
        self._send(signal.SIGKILL)
        with self._reaping:
            for child in self.children:
                os.waitpid(child, 0)
            self.children = []

    def _send(self, number: int) -> None:
        with self._reaping:
            for child in self.children:  # the id of an ended child stays in use until it is waited for
                os.kill(child, number)

    def _running(self) -> list[int]:
        with self._reaping:
            self.children = [child for child in self.children if os.waitpid(child, os.WNOHANG)[0] == 0]
            return self.children


def _cause(code: int) -> str:
    """How a worker ended, by its exit code, which is negative for a signal."""
    if code < 0:
        return f"a worker was ended by {signal.Signals(-code).name}"
    return f"a worker ended with code {code}, see above" if code else "a worker ended unexpectedly"
