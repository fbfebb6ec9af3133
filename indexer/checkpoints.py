"""Blocks that the chain of a network must hold: a start need not begin at genesis, and older forks cannot be told."""

from __future__ import annotations

from typing import NamedTuple

from indexer.networks import Network

LEAD = 2_016
"""Headers before a checkpoint that are asked for with it: no rule of required bits looks further back."""


class Checkpoint(NamedTuple):
    """A block of the chain: its height, and its hash in internal byte order, which commits to all before it."""

    height: int
    hash: bytes


# Blocks that programs of the field carry: bitcoinX' users (BSV 773,040 and 1,530,084; the other two are of published
# headers), Bitcoin Core (its snapshots), Bitcoin Cash Node, Litecoin Core (721,000; the assumed valid 2,772,730),
# Dogecoin Core (the assumed valid 5,050,000) and libdogecoin (5,400,000). Where work is over scrypt, a hash shows none.
_CHECKPOINTS: dict[tuple[str, str], tuple[tuple[int, str], ...]] = {
    ("bsv", "mainnet"): (
        (773_040, "000000000000000007a8838b1ead3b288c504de5eee26f3189fdbcd0b1a006ac"),
        (888_000, "000000000000000004026d10802cf1132fc67cc7a0c340eb4686869edaf48f38"),
    ),
    ("bsv", "testnet"): (
        (1_530_084, "000000000000006b07c5f2623f9a07f0f2bccd562401a8a35f8316c6d0d49dbf"),
        (1_602_710, "0000000000002535d989228969dc8c131c7f771f4845df3275ea43da144b899a"),
    ),
    ("btc", "mainnet"): (
        (840_000, "0000000000000000000320283a032748cef8227873ff4872689bf23f1cda83a5"),
        (880_000, "000000000000000000010b17283c3c400507969a9c2afd1dcf2082ec5cca2880"),
    ),
    ("bch", "mainnet"): (
        (873_239, "000000000000000000e28c75f4b398b3ac410755d18ef9314b770c3d08cb130e"),
        (932_228, "0000000000000000005a48a20e13f038be389952014373478b6a6a90d40e4680"),
        (960_710, "00000000000000000275ee55c04aa109347c9ee0b5bb4617837df3044f7e1be5"),
    ),
    ("ltc", "mainnet"): (
        (721_000, "198a7b4de1df9478e2463bd99d75b714eab235a2e63e741641dc8a759a9840e5"),
        (2_772_730, "80cdb35c080484df5bf384b311fde3c4694d3405765bc0f596e9eb369ff286e5"),
    ),
    ("ltc", "testnet"): ((2_352_616, "7540437e7bf7831fa872ba8cfae85951a1e5dbb04c201b6f5def934d9299f3c2"),),
    ("doge", "mainnet"): (
        (5_050_000, "e7d4577405223918491477db725a393bcfc349d8ee63b0a4fde23cbfbfd81dea"),
        (5_400_000, "cbb1f4ae807da83e13bdf9c28188982938c9ee6bf560c1023f51adac229eef87"),
    ),
}


def checkpoints(network: Network) -> tuple[Checkpoint, ...]:
    """The checkpoints of a network, lowest first: genesis, where coins parted, and later ones. None on regtest, where
    anyone may make another genesis."""
    if network.kind == "regtest":
        return ()
    known = {(0, network.genesis), *network.milestones, *_CHECKPOINTS.get((network.coin, network.name), ())}
    return tuple(Checkpoint(height, bytes.fromhex(shown)[::-1]) for height, shown in sorted(known))
