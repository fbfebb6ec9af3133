"""The long-running program: the composition root, its loops, its status, logs and metrics."""

from __future__ import annotations

from pathlib import Path


def version() -> str:
    """The version of the installed package, as PEP 440 has it."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("a2b-registry")
    except PackageNotFoundError:
        return "0+uninstalled"


def build() -> str:
    """The installed program, in words: the version, the commit that it was built from where that is recorded, and the
    formats of what it stores."""
    from indexer.model import SCHEMA
    from overlay.engines import NATIVE_LAYOUT

    file = Path(__file__).with_name("COMMIT")
    commit = f"commit {file.read_text().strip()[:60]}" if file.exists() else "commit not known"
    return f"{version()} ({commit}, database schema {SCHEMA}, index format {NATIVE_LAYOUT})"
