"""`python -m tests.vectors FILE or FOLDER…`: exit code 0 when all agree, 1 if not, 2 for wrong use."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.vectors.documents import documents
from tests.vectors.kinds import KINDS
from tests.vectors.runner import run


def main(arguments: list[str]) -> int:
    """Evaluate these files, and those in these folders."""
    paths = [Path(argument) for argument in arguments]
    unreadable = [path for path in paths if not (path.is_file() or path.is_dir())]
    if unreadable or not paths:
        print(
            "usage: python -m tests.vectors FILE or FOLDER…",
            *(f"no such file: {path}" for path in unreadable),
            sep="\n",
        )
        return 2
    return run([file for path in paths for file in (documents(path) if path.is_dir() else [path])], KINDS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
