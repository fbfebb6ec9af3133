"""Blocks that every chain of a network must hold: a start need not begin at genesis, and older forks cannot be told."""

from __future__ import annotations

from typing import NamedTuple

from indexer.networks import Network

LEAD = 2_016
"""Headers before a checkpoint that are asked for with it: no rule of required bits looks further back."""


class Checkpoint(NamedTuple):
    """A block of the chain: its height, and its hash in internal byte order."""

    height: int
    hash: bytes


_CHECKPOINTS: dict[tuple[str, str], tuple[tuple[int, str], ...]] = {
    ("bsv", "mainnet"): ((888_000, "000000000000000004026d10802cf1132fc67cc7a0c340eb4686869edaf48f38"),),
    ("bsv", "testnet"): ((1_602_710, "0000000000002535d989228969dc8c131c7f771f4845df3275ea43da144b899a"),),
}


def checkpoints(network: Network) -> tuple[Checkpoint, ...]:
    """The checkpoints of a network above genesis, lowest first."""
    known = {*network.milestones, *_CHECKPOINTS.get((network.coin, network.name), ())}
    return tuple(Checkpoint(height, bytes.fromhex(shown)[::-1]) for height, shown in sorted(known))
