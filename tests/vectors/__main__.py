"""`python -m tests.vectors FILE…`: exit code 0 when the product agrees with all vectors, 1 if not, 2 for wrong use."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.vectors.kinds import KINDS
from tests.vectors.runner import run


def main(arguments: list[str]) -> int:
    """Evaluate these files."""
    unreadable = [argument for argument in arguments if not Path(argument).is_file()]
    if unreadable or not arguments:
        print("usage: python -m tests.vectors FILE…", *(f"not a file: {argument}" for argument in unreadable), sep="\n")
        return 2
    return run([Path(argument) for argument in arguments], KINDS)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
