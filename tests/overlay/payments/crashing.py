"""A payment store and a node that end their process at a chosen step: nothing works after it, as after a power cut."""

from __future__ import annotations

import inspect
from typing import Any


class Crash(BaseException):
    """The process ended."""


class Steps:
    """Counts the calls of all that it wraps; `crash_at` is the number of the one that is the last, and `after` whether
    it still takes effect. `count` is how many there were."""

    def __init__(self, crash_at: int = -1, *, after: bool = False) -> None:
        self.crash_at, self.after, self.count, self.is_over = crash_at, after, 0, False

    def wrap(self, wrapped: Any) -> Any:
        return _Wrapped(wrapped, self)

    def begin(self) -> bool:
        """Count a call: whether the process ends after it. Raises Crash where it ends before."""
        if self.is_over:
            raise Crash
        number, self.count = self.count, self.count + 1
        if number != self.crash_at:
            return False
        self.is_over = True
        if not self.after:
            raise Crash
        return True


class _Wrapped:
    def __init__(self, wrapped: Any, steps: Steps) -> None:
        self._wrapped, self._steps = wrapped, steps

    def __getattr__(self, name: str) -> Any:
        method, steps = getattr(self._wrapped, name), self._steps
        if inspect.iscoroutinefunction(method):

            async def call_async(*args: Any, **more: Any) -> Any:
                is_last = steps.begin()
                result = await method(*args, **more)
                if is_last:
                    raise Crash
                return result

            return call_async

        def call(*args: Any, **more: Any) -> Any:
            is_last = steps.begin()
            result = method(*args, **more)
            if is_last:
                raise Crash
            return result

        return call
