"""The long-running program: the composition root, its loops, its status, logs and metrics."""

from __future__ import annotations


def version() -> str:
    """The version of the installed package, as PEP 440 has it."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as installed

    try:
        return installed("a2b-registry")
    except PackageNotFoundError:
        return "0+uninstalled"
