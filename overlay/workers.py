"""Several processes that serve on one port, for `a2b serve --workers N`: forked before anything is built."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import time

WATCH_SECONDS = 0.5
DRAIN_SECONDS = 10.0
"""What answers under way get to be finished, after a signal: the slowest that a search may take, several times over."""

CLEAN_SECONDS = 1.0
"""What closing the connections may take after that: clients that take nothing of an answer are not waited for."""

PATIENCE_SECONDS = 1.5
"""And then threads in the middle of long work are left behind: every write is a transaction."""

STOP_SECONDS = DRAIN_SECONDS + CLEAN_SECONDS + PATIENCE_SECONDS + 0.5
"""What the others get to end by themselves, once they are told."""


class WorkerError(Exception):
    """A process of the group ended by itself, or it has no address to serve on: the message says how, or why."""


def _how(code: int) -> str:
    """How a worker ended, by its exit code, which is negative for a signal."""
    if code < 0:
        return f"a worker was ended by {signal.Signals(-code).name}"
    return f"a worker ended with code {code}, see above" if code else "a worker was told to end"


def refuse_taken(host: str, port: int) -> None:
    """Raise WorkerError when somebody serves on an address already: processes that share a port are not told so."""
    try:
        for family, kind, protocol, _, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
            with socket.socket(family, kind, protocol) as tried:
                tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    tried.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                tried.bind(address)
    except OSError as error:
        raise WorkerError(f"cannot serve on {host} port {port}: {error.strerror}") from None


class Workers:
    """The processes of a group, as one of them sees it: the first has all others as `children`. `number` counts them
    from 0."""

    def __init__(self, count: int) -> None:
        """Fork `count` - 1 processes; each goes on from here."""
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
        """Whether this process is the one that was started."""
        return os.getpid() == self._parent

    async def watch(self) -> None:
        """Raise WorkerError when the first process is gone, or one of the others."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            if not self.is_first and os.getppid() != self._parent:
                raise WorkerError("the process that started this one is gone")
            self._look()

    def _look(self) -> None:
        with self._reaping:
            for child in self.children:
                pid, status = os.waitpid(child, os.WNOHANG)
                if pid:
                    self.children.remove(child)
                    raise WorkerError(f"{_how(os.waitstatus_to_exitcode(status))}, so all of them end")

    def tell(self) -> None:
        """Ask the others to end; returns at once."""
        self._send(signal.SIGTERM)

    def stop(self) -> None:
        """End the others: they are asked to, and killed when they do not. None is left afterwards."""
        self.tell()
        until = time.monotonic() + STOP_SECONDS
        while self._living() and time.monotonic() < until:
            time.sleep(0.01)
        self.kill()

    def kill(self) -> None:
        """End the others whatever they are doing: all that they write are transactions. May be called by any thread."""
        self._send(signal.SIGKILL)
        with self._reaping:
            for child in self.children:
                os.waitpid(child, 0)
            self.children = []

    def _send(self, number: int) -> None:
        with self._reaping:
            # a child that has ended keeps its number until it is waited for
            for child in self.children:
                os.kill(child, number)

    def _living(self) -> list[int]:
        with self._reaping:
            self.children = [child for child in self.children if os.waitpid(child, os.WNOHANG)[0] == 0]
            return self.children
