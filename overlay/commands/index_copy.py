"""`a2b index-copy`: a copy of the search index, from which another process starts to serve."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from overlay.commands.options import UsageError, command, settings_of
from overlay.text.terminal import say

if TYPE_CHECKING:
    from overlay.commands.options import Commands


def add(commands: Commands) -> None:
    """Add `a2b index-copy`."""
    parser = command(
        commands, "index-copy", index_copy, "Copy the search index by hard links, while other processes use it.",
        "data", "search",
        more="A server of the same database starts from the copy, and reads only the changes since: "
        "`A2B_SEARCH=native:FOLDER a2b serve`. Copied to another machine, it is used there. One of another database is "
        "refused.",
    )  # fmt: skip
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="a new folder on the file system of the index")


def index_copy(args: Namespace) -> int:
    """Make a copy."""
    from errno import EXDEV

    from overlay.app.storage import MissingError
    from overlay.projection.copied_index import copy_index

    scheme, _, path = settings_of(args).search.partition(":")
    if scheme != "native":
        raise UsageError(f"only a native index is copied, and A2B_SEARCH names one of {scheme}")
    if not Path(path).is_dir():
        raise MissingError(f"there is no index {path} to copy")
    try:
        position = copy_index(Path(path), args.folder)
    except OSError as error:
        if error.errno != EXDEV:
            raise
        raise UsageError(f"{args.folder} is on another file system than {path}: hard links cannot lead there") from None
    say(f"copied the index up to change {position.seq:,} to {args.folder}")
    return 0
