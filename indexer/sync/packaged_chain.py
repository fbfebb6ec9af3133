"""The packaged sample blocks, known by their first block and not by their name: they are a demonstration, and take no
part in a registry of other chains."""

from __future__ import annotations

from indexer.store import Store
from parsers.bitcoin.tx import sha256d

FIRST_BLOCK = bytes.fromhex("0823a24919947424e80374ac4b2fafaac7a5c3fa3713ab5a90a1c844679cf4ee")[::-1]
"""The hash of their block at height 1: genesis is that of every regtest chain."""


def is_packaged(store: Store, chain: str) -> bool:
    """Whether a stored chain is the packaged one."""
    header = store.headers.run(chain, 1, 1)
    return bool(header) and sha256d(header[0]) == FIRST_BLOCK
