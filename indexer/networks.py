"""The networks known: what their block files begin with, their genesis, their CAIP-2 names, and where coins parted."""

from __future__ import annotations

from dataclasses import dataclass

from indexer.chains import Rules, SourceError

RULES = {
    "bsv": Rules("bsv", segwit=False, envelope="output"),
    "btc": Rules("btc", segwit=True, envelope="witness"),
    "ltc": Rules("ltc", segwit=True, envelope="witness"),
    "bch": Rules("bch", segwit=False, envelope=None),
    "doge": Rules("doge", segwit=False, envelope=None),
}

COINS = tuple(RULES)

SCRYPT = frozenset({"ltc", "doge"})
"""Coins whose proof of work is over scrypt, not over the hash that names the block."""

DEFAULT_FINALITY = 100


@dataclass(frozen=True, slots=True)
class Network:
    """A network of a coin.

    `kind` is mainnet, testnet or regtest, as addresses tell them apart; `magic` the four bytes before each block on a
    node's disk (not always those of its wire). `genesis` and `milestones` (height to hash) are in display order.
    `first` is the height below which nothing of A2B can stand, from which reading starts unless told otherwise.
    """

    coin: str
    name: str
    kind: str
    magic: bytes
    genesis: str
    caip2: str
    milestones: tuple[tuple[int, str], ...] = ()
    first: int = 0

    @property
    def rules(self) -> Rules:
        """What the laws say differently on this coin's chain."""
        return RULES[self.coin]

    @property
    def finality(self) -> int | None:
        """The depth in blocks below which nothing changes; None on regtest, where anything may."""
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

# The first blocks that BTC, BCH and BSV do not share: a folder of one taken for another is noticed there.
_BTC_AFTER_BCH = (478559, "00000000000000000019f112ec0a9982926f1258cdcc558dd7c3b7e5dc7fa148")
_BCH_FIRST = (478559, "000000000000000000651ef99cb9fcbe0dadde1d424bd9f15ff20136191a5eec")
_BCH_AFTER_BSV = (556767, "0000000000000000004626ff6e3b936941d341c5932ece4357eeccac44e6d56c")
_BSV_FIRST = (556767, "000000000000000001d956714215d96ffc00e0afda4cd0a96c96f8d802b1662b")
_BCH_TESTNET_FIRST = "00000000000e38fef93ed9582a7df43815d5c2ba9fd37ef70c9a0ea4a285b8f5"


def _bip122(block: str) -> str:
    return f"bip122:{block[:32]}"


# Where A2B can begin. No inscription stands before inscriptions were invented: 1Sat ordinals on BSV (where indexers of
# the field start), inscription 0 on BTC, the locking-in of taproot on LTC. Pointers were written down in April 2025, so
# on the chains that carry nothing else reading starts some months before.
_FIRST_1SAT = 783_968
_FIRST_INSCRIPTION = 767_430
_LITECOIN_TAPROOT = 2_257_920
_BCH_BEFORE_POINTERS = 875_000
_DOGE_BEFORE_POINTERS = 5_450_000


def _network(
    coin: str, name: str, magic: str, genesis: str, caip2: str = "", *milestones: tuple[int, str], kind: str = "",
    first: int = 0,
) -> Network:  # fmt: skip
    name_of_blocks = caip2 or _bip122(genesis)
    return Network(coin, name, kind or name, bytes.fromhex(magic), genesis, name_of_blocks, milestones, first)


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
        raise SourceError(f"{coin!r} is not a coin that is read: use chain={'|'.join(COINS)}")
    for known in NETWORKS:
        if (known.coin, known.name) == (coin, name):
            return known
    names = "|".join(known.name for known in NETWORKS if known.coin == coin)
    raise SourceError(f"{coin} has no network {name!r}: use network={names}")


def by_magic(magic: bytes) -> list[Network]:
    """The networks whose blocks on disk begin with these four bytes."""
    return [known for known in NETWORKS if known.magic == magic]


def by_caip2(caip2: str) -> Network | None:
    """The network of that CAIP-2 name, None for one that is not read from blocks."""
    return next((known for known in NETWORKS if known.caip2 == caip2), None)


def is_complete_from(caip2: str, start: int) -> bool:
    """Whether no registration can be missing where the blocks of a network are read from height `start` on. Networks
    without registrations in outputs have none to miss; block 0 holds nothing but a coinbase."""
    known = by_caip2(caip2)
    return known is None or known.rules.envelope is None or start <= max(1, known.first)


def mined(caip2: str) -> bool:
    """Whether the blocks of a network have headers that anybody can check: those of the Bitcoins have, while of EVM
    chains and Solana only blocks that said something are known, by the word of an endpoint."""
    return not caip2.startswith(("eip155:", "solana:"))
