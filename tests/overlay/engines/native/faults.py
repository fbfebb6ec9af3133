"""System calls that fail once, as on a full disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from errno import ENOSPC
from typing import Any

import pytest

CALLS = ("write", "pwrite", "fsync", "replace", "posix_fallocate")


@contextmanager
def failing(number: int) -> Iterator[list[str]]:
    """Let the call `number`, from 0 on, fail; yields the calls so far. A write writes half before it fails."""
    calls: list[str] = []
    real = {name: getattr(os, name) for name in CALLS}

    def counted(name: str) -> Any:
        def call(*arguments: Any) -> Any:
            calls.append(name)
            if len(calls) - 1 != number:
                return real[name](*arguments)
            if name == "write":
                real[name](arguments[0], arguments[1][: len(arguments[1]) // 2])
            raise OSError(ENOSPC, os.strerror(ENOSPC))

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(os, name, counted(name))
        yield calls
