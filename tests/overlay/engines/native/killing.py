"""A process that writes, merges and rebuilds an index until it is killed: `python -m … URL`.

For each line that it reads it starts a process, prints its id, the sequence number of each commit, and "ended".
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

from overlay.engines import IndexPosition
from overlay.engines.native import preparation, writing
from overlay.projection.search_index import SearchIndex
from overlay.search.document import Document
from tests.contracts.listed import listing

LISTINGS = 30
REBUILT = 9
"""Changes between two rebuilds."""


def changed(seq: int) -> list[str]:
    """The listings that a change replaces."""
    return [str((7 * seq + number) % LISTINGS) for number in range(4)]


def state(seq: int) -> dict[str, str]:
    """The word of each listing after a change."""
    words: dict[str, str] = {}
    for past in range(1, seq + 1):
        words |= dict.fromkeys(changed(past), f"version{'abcdefgh'[past % 8]}")
    return words


def documents(seq: int, ids: list[str]) -> list[Document]:
    """Listings as they are after a change."""
    words = state(seq)
    return [listing(id_, f"alpha {words[id_]}") for id_ in ids]


def rebuild(index: SearchIndex, seq: int) -> None:
    """Fill another version and promote it."""
    ids = list(state(seq))
    with index.rebuilding() as fresh:
        fresh.clear()
        for start in range(0, len(ids), 5):
            some = ids[start : start + 5]
            fresh.replace(some, documents(seq, some), IndexPosition("e", 0))
        fresh.replace([], [], IndexPosition("e", seq))
        index.promote(fresh)


def work(url: str) -> Iterator[int]:
    """Change an index for ever; the number of each commit."""
    index = SearchIndex(url)
    seq = (index.position() or IndexPosition("e", 0)).seq
    while True:
        seq += 1
        index.replace(changed(seq), documents(seq, changed(seq)), IndexPosition("e", seq))
        yield seq
        if not seq % REBUILT:
            rebuild(index, seq)


def main() -> None:
    """See above. The kernels are loaded once; segments of more than 6 documents are merged in the background."""
    preparation.prepare()
    writing.AT_ONCE, writing.SMALL = 6, 2
    for _ in sys.stdin:
        pid = os.fork()
        if not pid:
            for seq in work(sys.argv[1]):
                os.write(1, b"%d\n" % seq)
        print(pid, flush=True)
        os.waitpid(pid, 0)
        print("ended", flush=True)


if __name__ == "__main__":
    main()
