"""Whether a cluster answers, once a request to it had no answer: others need not wait for the same."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock, Thread
from time import sleep

from overlay.engines import EngineError

PAUSE_SECONDS = 0.5
"""Seconds between two pings of a cluster that does not answer."""


class ClusterWatch:
    """`is_away` holds from the first ping that failed until one succeeds. `ping` raises EngineError."""

    def __init__(self, ping: Callable[[], None]) -> None:
        self.is_away = False
        self._ping, self._watching = ping, Lock()

    def look(self) -> None:
        """Ping in a thread until the cluster answers, unless one does. A request alone may time out because it takes
        long: that ends with the first ping."""
        if self._watching.acquire(blocking=False):
            Thread(target=self._watch, name="opensearch-watch", daemon=True).start()

    def _watch(self) -> None:
        try:
            while not self._answers():
                self.is_away = True
                sleep(PAUSE_SECONDS)
        finally:
            self.is_away = False
            self._watching.release()

    def _answers(self) -> bool:
        try:
            self._ping()
        except EngineError:
            return False
        return True
