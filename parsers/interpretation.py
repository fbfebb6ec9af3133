"""Whether kernels that are not compiled yet are interpreted: run as they are written, in Python, hundreds of times as
slowly (`parsers.jit`)."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_progress, _interprets = threading.Condition(), threading.Event()
_unprepared: set[str] = set()


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


def declare(kernel: Callable[..., Any]) -> None:
    """Note a kernel that is not compiled or loaded yet."""
    _unprepared.add(_name(kernel))


def prepared(kernel: Callable[..., Any]) -> None:
    """Note that a kernel has been compiled or loaded."""
    with _progress:
        _unprepared.discard(_name(kernel))
        _progress.notify_all()


def is_prepared(kernel: Callable[..., Any]) -> bool:
    """Whether a kernel is compiled or loaded."""
    return _name(kernel) not in _unprepared


def unprepared() -> frozenset[str]:
    """The imported kernels that have not been compiled or loaded in this process, as `module.name`."""
    return frozenset(_unprepared)


def wait_while_interpreted(kernel: Callable[..., Any]) -> None:
    """Wait until a kernel is compiled or loaded, or none is interpreted any more."""
    with _progress:
        _progress.wait_for(lambda: is_prepared(kernel) or not is_interpreting())


def _name(kernel: Callable[..., Any]) -> str:
    return f"{kernel.__module__}.{kernel.__qualname__}"
