"""Parameters of the peer-to-peer protocol of each network: magic, port, DNS seeds, and what a message may hold."""

from __future__ import annotations

from typing import NamedTuple

from indexer.chains.peers import messages
from indexer.headers.networks import Network


class WireNetwork(NamedTuple):
    """`magic` begins each message; `seeds` are DNS names that answer with addresses of peers. `protocol` is the version
    that is announced. `block_kind` and `tx_kind` are the kinds of inventory entries for a whole block and a
    transaction, `block_bytes` is the limit of a block.
    `auxpow`: headers may be merge-mined. `segwit`: blocks may carry witnesses. `extended`: messages above 4 GB.
    `interval` is the usual time between blocks, in seconds."""

    magic: bytes
    port: int
    seeds: tuple[str, ...]
    protocol: int
    block_kind: int
    tx_kind: int
    block_bytes: int
    auxpow: bool
    segwit: bool
    extended: bool
    interval: int


class _WireCoin(NamedTuple):
    block_bytes: int
    interval: int = 600
    protocol: int = 70016
    witnesses: bool = False
    auxpow: bool = False
    extended: bool = False


_COINS = {
    "bsv": _WireCoin(16 << 30, extended=True),
    "btc": _WireCoin(4 << 20, witnesses=True),
    "ltc": _WireCoin(8 << 20, interval=150, witnesses=True),
    "bch": _WireCoin(2 << 30),
    "doge": _WireCoin(8 << 20, interval=60, protocol=70015, auxpow=True),
}
"""Limits of blocks above what the rules of a coin allow now: those of BSV have none, those of BCH grow."""

_ADDRESSES: dict[tuple[str, str], tuple[str, int, str]] = {
    ("bsv", "mainnet"): (
        "e3e1f3e8", 8333, "seed.bitcoinsv.io seed.satoshisvision.network seed.bitcoinseed.directory",
    ),
    ("bsv", "testnet"): (
        "f4e5f3f4", 18333,
        "testnet-seed.bitcoinsv.io testnet-seed.bitcoincloud.net testnet-seed.bitcoinseed.directory",
    ),
    ("bsv", "regtest"): ("dab5bffa", 18444, ""),
    ("btc", "mainnet"): (
        "f9beb4d9", 8333,
        ("dnsseed.bluematt.me seed.bitcoin.jonasschnelli.ch seed.btc.petertodd.net seed.bitcoin.sprovoost.nl "
        "dnsseed.emzy.de seed.bitcoin.wiz.biz seed.mainnet.achownodes.xyz"),
    ),
    ("btc", "testnet"): (
        "0b110907", 18333,
        ("testnet-seed.bitcoin.jonasschnelli.ch seed.tbtc.petertodd.net seed.testnet.bitcoin.sprovoost.nl "
        "testnet-seed.bluematt.me seed.testnet.achownodes.xyz"),
    ),
    ("btc", "testnet4"): ("1c163f28", 48333, "seed.testnet4.bitcoin.sprovoost.nl seed.testnet4.wiz.biz"),
    ("btc", "signet"): ("0a03cf40", 38333, "seed.signet.bitcoin.sprovoost.nl seed.signet.achownodes.xyz"),
    ("btc", "regtest"): ("fabfb5da", 18444, ""),
    ("bch", "mainnet"): (
        "e3e1f3e8", 8333,
        ("seed.flowee.cash seed-bch.bitcoinforks.org btccash-seeder.bitcoinunlimited.info seed.bchd.cash "
        "seed.bch.loping.net dnsseed.electroncash.de bchseed.c3-soft.com bch.bitjson.com"),
    ),
    ("bch", "testnet"): (
        "f4e5f3f4", 18333, "testnet-seed.bchd.cash seed.tbch.loping.net testnet-seed.bitcoinunlimited.info",
    ),
    ("bch", "regtest"): ("dab5bffa", 18444, ""),
    ("ltc", "mainnet"): (
        "fbc0b6db", 9333,
        ("seed-a.litecoin.loshan.co.uk dnsseed.thrasher.io dnsseed.litecointools.com dnsseed.litecoinpool.org "
        "dnsseed.koin-project.com"),
    ),
    ("ltc", "testnet"): (
        "fdd2c8f1", 19335,
        "testnet-seed.litecointools.com seed-b.litecoin.loshan.co.uk dnsseed-testnet.thrasher.io",
    ),
    ("ltc", "regtest"): ("fabfb5da", 19444, ""),
    ("doge", "mainnet"): ("c0c0c0c0", 22556, "seed.multidoge.org seed2.multidoge.org"),
    ("doge", "testnet"): ("fcc1b7dc", 44556, "testseed.jrn.me.uk"),
    ("doge", "regtest"): ("fabfb5da", 18444, ""),
}  # fmt: skip
"""Magic, port and DNS seeds, by coin and name of the network. Bitcoin SV and BCH share magic and port: their headers
tell them apart."""


def wire_network(network: Network) -> WireNetwork:
    """The parameters of a network."""
    magic, port, seeds = _ADDRESSES[network.coin, network.name]
    coin = _COINS[network.coin]
    witnesses = messages.WITNESS_FLAG if coin.witnesses else 0
    return WireNetwork(
        bytes.fromhex(magic),
        port,
        tuple(seeds.split()),
        coin.protocol,
        messages.BLOCK | witnesses,
        messages.TX | witnesses,
        coin.block_bytes,
        coin.auxpow,
        coin.witnesses,
        coin.extended,
        coin.interval,
    )
