"""The kind of a network by its CAIP-2 id, and the sentence that a listing, quote or page is of a test network."""

from __future__ import annotations

from functools import lru_cache

from indexer.headers.networks import by_caip2


@lru_cache
def network_kind(caip2: str) -> str:
    """mainnet, testnet or regtest, by a CAIP-2 id; one that is not listed here counts as a main network, and a private
    cluster of Solana as regtest."""
    if (network := by_caip2(caip2)) is not None:
        return network.kind
    namespace, _, reference = caip2.partition(":")
    if namespace == "eip155" and reference.isdecimal():
        from indexer.chains.evm.chain_ids import by_number

        return by_number(int(reference)).kind
    if namespace == "solana":
        from indexer.chains.solana.chain import NETWORKS

        return NETWORKS.get(caip2, "regtest")
    return "mainnet"


def network_note(*caip2s: str) -> str:
    """A sentence that names the test networks among these (CAIP-2 ids); "" where all are main networks."""
    named = sorted({caip2 for caip2 in caip2s if network_kind(caip2) != "mainnet"})
    if not named:
        return ""
    if len(named) == 1:
        return f"{named[0]} is a test network: its work proves nothing, and its coins have no value"
    return f"{', '.join(named)} are test networks: their work proves nothing, and their coins have no value"
