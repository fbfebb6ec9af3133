"""Give memory back: after a bulk of work glibc keeps what it freed, and threads keep arenas of their own."""

from __future__ import annotations

import ctypes
import gc

_M_ARENA_MAX = -8
ARENAS = 2


def few_arenas() -> None:
    """Let all threads allocate from two arenas (mallopt(3)); does nothing where the C library has no such thing."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, ARENAS)


def rarely_collect() -> None:
    """Look for garbage in circles every 50,000 new objects instead of 700, and never among what is there now: answering
    makes none, and looking took a tenth of the time of a search."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def give_back() -> None:
    """Return freed memory to the system (malloc_trim(3)); does nothing where the C library cannot."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
