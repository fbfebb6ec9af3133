"""Work beside the commits of a writer, one job after the other, in a thread that ends after the last."""

from __future__ import annotations

import threading
from collections.abc import Callable

Job = Callable[[], None]

CLOSE_SECONDS = 10.0
"""How long closing waits for a job; after that it is abandoned, and must not publish anything."""


class BackgroundJobs:
    """Runs jobs while there are any."""

    def __init__(self, next_job: Callable[[], Job | None]) -> None:
        self._next_job = next_job
        self._lock = threading.Lock()
        self.thread: threading.Thread | None = None
        self.is_closed = False

    def start(self) -> None:
        """Run the due jobs, and the jobs that become due after them, unless that has begun."""
        with self._lock:
            if self.thread is not None or self.is_closed or (job := self._next_job()) is None:
                return
            self.thread = threading.Thread(target=self._run, args=(job,), name="index-jobs", daemon=True)
            self.thread.start()

    def _run(self, job: Job | None) -> None:
        try:
            while job is not None:
                job()
                job = self._following()
        except BaseException:
            with self._lock:
                self.thread = None
            raise

    def _following(self) -> Job | None:
        with self._lock:
            job = None if self.is_closed else self._next_job()
            if job is None:
                self.thread = None  # before the lock is released, so that no start is lost
            return job

    def wait(self, timeout: float | None = None) -> None:
        """Wait until there is nothing to do, for some seconds at most."""
        if (thread := self.thread) is not None:
            thread.join(timeout)

    def close(self) -> None:
        """Stop starting jobs."""
        self.is_closed = True
        self.wait(CLOSE_SECONDS)
