"""Networks of each coin: magic bytes, genesis block, CAIP-2 id, the blocks at which coins split, and checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from indexer.errors import SourceError


@dataclass(frozen=True, slots=True)
class CoinRules:
    """The differences between coins in reading a block.

    `coin` is bsv, btc, ltc, bch or doge (evm or solana on other chains). `segwit`: transactions may carry witnesses.
    `envelope`: where inscriptions are: `output` (BSV, law 1), `witness` (BTC and LTC, law 3a) or None (pointers only).
    """

    coin: str
    segwit: bool
    envelope: str | None


RULES = {
    "bsv": CoinRules("bsv", segwit=False, envelope="output"),
    "btc": CoinRules("btc", segwit=True, envelope="witness"),
    "ltc": CoinRules("ltc", segwit=True, envelope="witness"),
    "bch": CoinRules("bch", segwit=False, envelope=None),
    "doge": CoinRules("doge", segwit=False, envelope=None),
}

COINS = tuple(RULES)

SCRYPT = frozenset({"ltc", "doge"})
"""Coins with the scrypt hash of the header as proof of work, not its double SHA-256."""

DEFAULT_FINALITY = 100


@dataclass(frozen=True, slots=True)
class Network:
    """A network of a coin.

    `kind` is mainnet, testnet or regtest (the address formats); `magic` the four bytes before each block in a node's
    block files, which may differ from those of its wire protocol. `genesis` is a hash and `split_blocks` are (height,
    hash) pairs, in display order. `first` is the height of the first block that can hold A2B data: the default start.
    """

    coin: str
    name: str
    kind: str
    magic: bytes
    genesis: str
    caip2: str
    split_blocks: tuple[tuple[int, str], ...] = ()
    first: int = 0

    @property
    def rules(self) -> CoinRules:
        """The rules of the network's coin."""
        return RULES[self.coin]

    @property
    def finality(self) -> int | None:
        """The depth in blocks below which nothing changes; None on regtest, where any block may be reorganised."""
        return None if self.kind == "regtest" else DEFAULT_FINALITY

    def __str__(self) -> str:
        return f"{self.coin} {self.name}"


_BITCOIN = "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f"
_TESTNET_3 = "000000000933ea01ad0ee984209779baaec3ced90fa3f408719526f8d77f4943"
_TESTNET_4 = "00000000da84f2bafbbc53dee25a72ae507ff4914b867c565be350b0da8bf043"
_SIGNET = "00000008819873e925422c1ff0f99f7cc9bbb232af63a077a480a3633bee1ef6"
_REGTEST = "0f9188f13cb7b2c71f2a335e3a4fc328bf5beb436012afca590b1a11466e2206"
_LITECOIN = "12a765e31ffd4059bada1e25190f6e98c99d9714d334efa41a195a7e7e04bfe2"
_LITECOIN_TESTNET = "4966625a4b2851d9fdee139e56211a0d88575f59ed816ff5e6a63deb4e3e29a0"
_LITECOIN_REGTEST = "530827f38f93b43ed12af0b3ad25a288dc02ed74d6d7857862df51fc56c416f9"
_DOGECOIN = "1a91e3dace36e2be3bf030a65679fe821aa1d6ef92e7c9902eb318182c355691"
_DOGECOIN_TESTNET = "bb0a78264637406b6360aad926284d544d7049f45189db5664f3c4d07350559e"
_DOGECOIN_REGTEST = "3d2160a3b5dc4a9d62e7e66a295f70313ac808440ef7400d6c0772171ce973a5"

# The first blocks after each split of BTC, BCH and BSV: they distinguish the block files of the coins.
_BTC_AFTER_BCH = (478559, "00000000000000000019f112ec0a9982926f1258cdcc558dd7c3b7e5dc7fa148")
_BCH_FIRST = (478559, "000000000000000000651ef99cb9fcbe0dadde1d424bd9f15ff20136191a5eec")
_BCH_AFTER_BSV = (556767, "0000000000000000004626ff6e3b936941d341c5932ece4357eeccac44e6d56c")
_BSV_FIRST = (556767, "000000000000000001d956714215d96ffc00e0afda4cd0a96c96f8d802b1662b")
_BCH_TESTNET_FIRST = "00000000000e38fef93ed9582a7df43815d5c2ba9fd37ef70c9a0ea4a285b8f5"


def _bip122(block: str) -> str:
    return f"bip122:{block[:32]}"


# The first block that can hold A2B data: the first 1Sat ordinal on BSV (where other indexers start, too), inscription 0
# on BTC, the lock-in of taproot on LTC. Pointers were specified in April 2025; on chains with nothing else, reading
# starts some months earlier.
_FIRST_1SAT = 783_968
_FIRST_INSCRIPTION = 767_430
_LITECOIN_TAPROOT = 2_257_920
_BCH_BEFORE_POINTERS = 875_000
_DOGE_BEFORE_POINTERS = 5_450_000


def _network(
    coin: str, name: str, magic: str, genesis: str, caip2: str = "", *split_blocks: tuple[int, str], kind: str = "",
    first: int = 0,
) -> Network:  # fmt: skip
    return Network(
        coin, name, kind or name, bytes.fromhex(magic), genesis, caip2 or _bip122(genesis), split_blocks, first
    )


_BCH = _bip122(_BCH_FIRST[1])

NETWORKS: tuple[Network, ...] = (
    _network("bsv", "mainnet", "f9beb4d9", _BITCOIN, "bsv:mainnet", _BCH_FIRST, _BSV_FIRST, first=_FIRST_1SAT),
    _network("bsv", "testnet", "0b110907", _TESTNET_3, "bsv:testnet"),
    _network("bsv", "regtest", "fabfb5da", _REGTEST, "bsv:regtest"),
    _network("btc", "mainnet", "f9beb4d9", _BITCOIN, "", _BTC_AFTER_BCH, first=_FIRST_INSCRIPTION),
    _network("btc", "testnet", "0b110907", _TESTNET_3),
    _network("btc", "testnet4", "1c163f28", _TESTNET_4, kind="testnet"),
    _network("btc", "signet", "0a03cf40", _SIGNET, kind="testnet"),
    _network("btc", "regtest", "fabfb5da", _REGTEST, "btc:regtest"),
    _network("bch", "mainnet", "f9beb4d9", _BITCOIN, _BCH, _BCH_FIRST, _BCH_AFTER_BSV, first=_BCH_BEFORE_POINTERS),
    _network("bch", "testnet", "0b110907", _TESTNET_3, _bip122(_BCH_TESTNET_FIRST)),
    _network("bch", "regtest", "fabfb5da", _REGTEST, "bch:regtest"),
    _network("ltc", "mainnet", "fbc0b6db", _LITECOIN, first=_LITECOIN_TAPROOT),
    _network("ltc", "testnet", "fdd2c8f1", _LITECOIN_TESTNET),
    _network("ltc", "regtest", "fabfb5da", _LITECOIN_REGTEST, "ltc:regtest"),
    _network("doge", "mainnet", "c0c0c0c0", _DOGECOIN, first=_DOGE_BEFORE_POINTERS),
    _network("doge", "testnet", "fcc1b7dc", _DOGECOIN_TESTNET),
    _network("doge", "regtest", "fabfb5da", _DOGECOIN_REGTEST, "doge:regtest"),
)


def network(coin: str, name: str) -> Network:
    """The network of that coin and name. Raises SourceError naming those there are."""
    if coin not in RULES:
        raise SourceError(f"{coin!r} is not a supported coin: use chain={'|'.join(COINS)}")
    for candidate in NETWORKS:
        if (candidate.coin, candidate.name) == (coin, name):
            return candidate
    names = "|".join(candidate.name for candidate in NETWORKS if candidate.coin == coin)
    raise SourceError(f"{coin} has no network {name!r}: use network={names}")


def by_magic(magic: bytes) -> list[Network]:
    """The networks with these four magic bytes in block files."""
    return [network for network in NETWORKS if network.magic == magic]


def by_caip2(caip2: str) -> Network | None:
    """The network with that CAIP-2 id, None for chains without Bitcoin blocks."""
    return next((network for network in NETWORKS if network.caip2 == caip2), None)


def ticker_of(caip2: str) -> str:
    """The ticker of a network's coin, whose smallest part is a satoshi; "" for a chain of another kind."""
    network = by_caip2(caip2)
    return "" if network is None else network.coin.upper()


def is_complete_from(caip2: str, start: int) -> bool:
    """Whether reading a network's blocks from height `start` on misses no registration. Networks without inscriptions
    have none to miss; block 0 holds only a coinbase."""
    network = by_caip2(caip2)
    return network is None or network.rules.envelope is None or start <= max(1, network.first)


def topic_genesis(caip2: str) -> int | None:
    """The height of the first block with an anchor of the registry's topic (BRC-136), None on chains without a topic.
    It is the same however early reading began; block 0 holds only a coinbase."""
    network = by_caip2(caip2)
    return max(1, network.first) if network is not None and network.coin == "bsv" else None


def mined(caip2: str) -> bool:
    """Whether the headers of a network have a proof of work that can be verified: not on EVM chains and Solana, where
    an endpoint is trusted."""
    return not caip2.startswith(("eip155:", "solana:"))


LEAD = 2_016
"""Headers fetched before a checkpoint: no rule of required bits looks further back."""


class Checkpoint(NamedTuple):
    """A block of the chain: its height, and its hash (internal byte order), which commits to all blocks before it."""

    height: int
    hash: bytes


# Checkpoints that other programs ship: users of bitcoinX (BSV 773,040 and 1,530,084; the other two are from published
# headers), Bitcoin Core (its snapshots), Bitcoin Cash Node, Litecoin Core (721,000; the assumed valid 2,772,730),
# Dogecoin Core (the assumed valid 5,050,000) and libdogecoin (5,400,000). With scrypt, a block's hash shows no work.
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
    """The checkpoints of a network, lowest first: genesis, blocks at splits, and later ones. None on regtest, where
    anyone may create another genesis."""
    if network.kind == "regtest":
        return ()
    blocks = {(0, network.genesis), *network.split_blocks, *_CHECKPOINTS.get((network.coin, network.name), ())}
    return tuple(Checkpoint(height, bytes.fromhex(digest)[::-1]) for height, digest in sorted(blocks))
