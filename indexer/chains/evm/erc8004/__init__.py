"""`erc8004=https:` an ERC-8004 identity registry, read from an endpoint of an EVM chain.

`https://host/path?contract=0x…&from=HEIGHT&network=8453&finality=N`. The default contract is the one deployed on
Ethereum and most other mainnets. `network` is a chain id (EIP-155) and optional. To follow more than one network,
configure one name for each, with `chain=erc8004`.
"""

from __future__ import annotations

from collections.abc import Sequence

from indexer.chains import BlockEvents, ChainStore, DeferredEvents, NewestEvents
from indexer.chains.evm import EvmChain, read_logs
from indexer.chains.evm.erc8004.entries import RegistryBlock, RegistryEntry, agent_numbers, resolve_logs
from indexer.chains.evm.responses import Log
from indexer.model import BlockRef
from parsers.pointers import erc8004


def create(name: str, url: str, store: ChainStore | None = None) -> EvmChain:
    """The chain of the endpoint at a URL, not connected yet. Raises SourceError for a wrong URL."""
    return read_logs(name, url, Entries(), ("erc8004",), REGISTRY, store)


REGISTRY = "0x8004a169fb4a3325136eb29fa0ceb6d2e539a432"
"""The identity registry's address on Ethereum and most other mainnets; the one of testnets is 0x8004a818…bd9e."""

_FIRST = {("eip155:1", REGISTRY): 24_339_925}
"""The block of each registry's first entry."""


class Entries:
    """A `LogReader` of an ERC-8004 identity registry."""

    topics: Sequence[bytes] = erc8004.TOPICS

    def first(self, caip2: str, contract: bytes) -> int:
        """The default start height."""
        return _FIRST.get((caip2, f"0x{contract.hex()}"), 0)

    def read(self, caip2: str, ref: BlockRef, logs: Sequence[Log]) -> BlockEvents | DeferredEvents:
        """The logs of one block, deferred because their events depend on the state of the entries before."""
        if not logs:
            return BlockEvents()
        registry = f"0x{logs[0].address.hex()}"
        ids = frozenset(erc8004.entry_id(caip2, registry, agent) for agent in agent_numbers(logs))
        return DeferredEvents(ids, ref.height, tuple(logs), sum(len(log.data) + 32 * len(log.topics) for log in logs))

    def resolve(self, caip2: str, deferred: DeferredEvents, newest: NewestEvents) -> BlockEvents:
        """The events of deferred logs, given the newest event of each of their entries before the block."""
        logs: tuple[Log, ...] = deferred.records
        block = RegistryBlock(caip2, f"0x{logs[0].address.hex()}", deferred.height)
        return resolve_logs(block, logs, {id_: RegistryEntry.after(newest.get(id_)) for id_ in deferred.ids})
