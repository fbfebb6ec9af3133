"""Reads an identity registry's logs, block by block: what they say depends on where its entries stood before."""

from __future__ import annotations

from collections.abc import Sequence

from indexer.chains import Newest, Sayings, Sequel
from indexer.chains.evm.answers import Log
from indexer.chains.evm.erc8004.entries import Block, Entry, agents, say
from indexer.facts import BlockRef
from parsers import erc8004

REGISTRY = "0x8004a169fb4a3325136eb29fa0ceb6d2e539a432"
"""The identity registry's address on Ethereum and most other mainnets; that of testnets is 0x8004a818…bd9e."""

_FIRST = {("eip155:1", REGISTRY): 24_339_925}
"""The blocks in which registries logged their first entries."""


class Entries:
    """A `LogReader`."""

    topics: Sequence[bytes] = erc8004.TOPICS

    def first(self, caip2: str, contract: bytes) -> int:
        """Where reading starts unless told otherwise."""
        return _FIRST.get((caip2, f"0x{contract.hex()}"), 0)

    async def read(self, caip2: str, ref: BlockRef, logs: Sequence[Log]) -> Sayings | Sequel:
        """What the logs of one block say."""
        if not logs:
            return Sayings()
        block = Block(caip2, f"0x{logs[0].address.hex()}", ref.height)
        ids = frozenset(erc8004.entry_id(caip2, block.registry, agent) for agent in agents(logs))

        def told(newest: Newest) -> Sayings:
            return say(block, logs, {id_: Entry.after(newest.get(id_)) for id_ in ids})

        return Sequel(ids, told, sum(len(log.data) + 32 * len(log.topics) for log in logs))
