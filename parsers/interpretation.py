"""Whether kernels that are not compiled yet are interpreted: run as they are written, in Python, hundreds of times as
slowly (`parsers.jit`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_progress, _interprets = threading.Condition(), threading.Event()


class _Thread(threading.local):
    """Whether this thread compiles the kernels that it calls while others interpret them."""

    compiles = False


_thread = _Thread()


def interpret(*, on: bool) -> None:
    """Interpret kernels until a thread that is `compiling` has compiled or loaded them; or let their first call do that
    again, as in the beginning."""
    with _progress:
        (_interprets.set if on else _interprets.clear)()
        _progress.notify_all()


def is_interpreting() -> bool:
    """Whether kernels that are not prepared are interpreted."""
    return _interprets.is_set()


@contextmanager
def compiling() -> Iterator[None]:
    """Compile or load in this thread the kernels that it calls, for all threads."""
    _thread.compiles = True
    try:
        yield
    finally:
        _thread.compiles = False


def compiles_here() -> bool:
    """Whether this thread is `compiling`."""
    return _thread.compiles


def wait_for(is_met: Callable[[], bool]) -> None:
    """Wait for a condition that `prepared` is to bring, or until nothing is interpreted."""
    with _progress:
        _progress.wait_for(lambda: is_met() or not is_interpreting())


def prepared() -> None:
    """A kernel has been compiled or loaded."""
    with _progress:
        _progress.notify_all()
