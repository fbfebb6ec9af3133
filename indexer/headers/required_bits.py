"""The bits that a header must have on each network, computed from the headers before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from indexer.headers.networks import SCRYPT, Network
from indexer.headers.proof_of_work import compact, target
from indexer.headers.raw_tree import Branch

MEDIAN_OF = 11

PERIOD = 2_016
_DIGISHIELD = 145_000
_ASERT_HEIGHT, _ASERT_BITS, _ASERT_TIME = 661_647, 0x1804DAFE, 1_605_447_844
"""The anchor block of ASERT on Bitcoin Cash: its height, its bits, and the time of its parent."""

_DAY = 24 * 3600
_HALF_LIFE = 2 * _DAY
_FORTNIGHT = 14 * _DAY
_UAHF_HEIGHT, _DAA_HEIGHT, _TESTNET_DAA_HEIGHT = 478_558, 504_031, 1_188_697
"""The first block of the fork of August 2017, and the last ones before the rule of November 2017."""

_EMERGENCY_SECONDS, _SLOW_SECONDS = 12 * 3600, 20 * 60
_BITCOIN_LIMIT, _SIGNET_LIMIT, _SCRYPT_LIMIT, _REGTEST_LIMIT = 0x1D00FFFF, 0x1E0377AE, 0x1E0FFFFF, 0x207FFFFF


class RuleError(Exception):
    """A header that breaks a rule; the message names the rule and the value."""


class UncheckedHeader(NamedTuple):
    """A header of 80 bytes to check. `aux` is its AuxPoW on Dogecoin. `buried`: a checkpoint above commits to it, so
    scrypt is not computed."""

    raw: bytes
    digest: bytes
    aux: bytes | None = None
    buried: bool = False

    @property
    def time(self) -> int:
        """Seconds since 1970."""
        return int.from_bytes(self.raw[68:72], "little")

    @property
    def bits(self) -> int:
        """The target in its compact form."""
        return int.from_bytes(self.raw[72:76], "little")


def easiest(network: Network) -> int:
    """The bits of the easiest target that the network allows."""
    if network.kind == "regtest":
        return _REGTEST_LIMIT
    if network.coin in SCRYPT:
        return _SCRYPT_LIMIT
    return _SIGNET_LIMIT if network.name == "signet" else _BITCOIN_LIMIT


def median_time(branch: Branch, height: int) -> int:
    """The median time of the last eleven blocks (or fewer) of a branch up to a height."""
    numbers = [
        branch.number_at(past_height)
        for past_height in range(max(branch.tree.first, height - MEDIAN_OF + 1), height + 1)
    ]
    times = sorted(branch.tree.time(number) for number in numbers if number is not None)
    return times[len(times) // 2]


BitsRule = Callable[[Branch, UncheckedHeader], range]
"""The targets allowed for the header on top of a branch, from the hardest to the easiest."""


def _before(branch: Branch, height: int) -> int:
    """The number of a branch's block at a height. Raises RuleError if it is unknown."""
    number = branch.number_at(height)
    if number is None:
        raise RuleError(f"its required bits cannot be known without the header at {height:,}")
    return number


def _exactly(bits: int) -> range:
    return range(target(bits), target(bits) + 1)


def _bsv(network: Network) -> BitsRule:
    """The bits that Bitcoin SV requires.

    At first a retarget every 2,016 blocks (`fortnightly`); from August 2017 with emergency adjustments; since November
    2017 a target from the work and time of the last 144 blocks. On testnet a block more than 20 minutes after its
    parent has the easiest target. Source: bitcoin-sv, `src/pow.cpp`; the tests compare with bitcoinX.
    """
    if network.kind == "regtest":
        return _regtest
    return _bsv_testnet if network.kind == "testnet" else _bsv_mainnet


def _regtest(_branch: Branch, _header: UncheckedHeader) -> range:
    """The required bits of every coin on regtest: the easiest target, without a retarget."""
    return _exactly(_REGTEST_LIMIT)


def _bsv_mainnet(branch: Branch, header: UncheckedHeader) -> range:
    height = branch.height + 1
    if height > _DAA_HEIGHT:
        return _by_last_day(branch)
    allowed = fortnightly(branch, header)
    if height < _UAHF_HEIGHT or height % PERIOD == 0:
        return allowed
    if median_time(branch, height - 1) - median_time(branch, height - 7) < _EMERGENCY_SECONDS:
        return allowed
    return _exactly(compact(min(allowed.start * 5 // 4, target(_BITCOIN_LIMIT))))


def _bsv_testnet(branch: Branch, header: UncheckedHeader) -> range:
    height, tree = branch.height + 1, branch.tree
    has_daa = height > _TESTNET_DAA_HEIGHT
    if not has_daa and height % PERIOD == 0:
        return fortnightly(branch, header)
    if header.time - tree.time(_before(branch, height - 1)) > _SLOW_SECONDS:
        return _exactly(_BITCOIN_LIMIT)
    if has_daa:
        return _by_last_day(branch)
    last = height - 1
    while last % PERIOD and tree.bits(_before(branch, last)) == _BITCOIN_LIMIT:
        last -= 1
    return _exactly(tree.bits(_before(branch, last)))


def _by_last_day(branch: Branch) -> range:
    """The target that the last 144 blocks would have met every 600 seconds, by their work and time."""
    tree = branch.tree
    first, last = _middle_of_three(branch, branch.height - 144), _middle_of_three(branch, branch.height)
    seconds = min(max(tree.time(last) - tree.time(first), _DAY // 2), _DAY * 2)
    expected = (tree.work(last) - tree.work(first)) * 600 // seconds
    return _exactly(compact(min((1 << 256) // expected - 1, target(_BITCOIN_LIMIT))))


def _middle_of_three(branch: Branch, height: int) -> int:
    """The number of the block with the middle time among that at `height` and the two before.

    Of equal times it is the one that bitcoin-sv's three exchanges leave in the middle.
    """
    oldest, middle, newest = (_before(branch, height - back) for back in (2, 1, 0))
    time = branch.tree.time
    if time(oldest) > time(newest):
        oldest, newest = newest, oldest
    if time(oldest) > time(middle):
        oldest, middle = middle, oldest
    return newest if time(middle) > time(newest) else middle


def fortnightly(branch: Branch, _header: UncheckedHeader) -> range:
    """The bits that Bitcoin requires: a retarget every 2,016 blocks by the time that they took."""
    height, tree = branch.height + 1, branch.tree
    last = _before(branch, height - 1)
    if height % PERIOD:
        return _exactly(tree.bits(last))
    took = tree.time(last) - tree.time(_before(branch, height - PERIOD))
    took = min(max(took, _FORTNIGHT // 4), _FORTNIGHT * 4)
    return _exactly(compact(min(target(tree.bits(last)) * took // _FORTNIGHT, target(_BITCOIN_LIMIT))))


def _litecoin(branch: Branch, _header: UncheckedHeader) -> range:
    """The bits that Litecoin allows: a change every 2,016 blocks, by a factor of four at most."""
    last = branch.tree.bits(_before(branch, branch.height))
    if (branch.height + 1) % PERIOD:
        return _exactly(last)
    return _between(target(last) // 4, target(last) * 4)


def _dogecoin(branch: Branch, _header: UncheckedHeader) -> range:
    """The bits that Dogecoin allows since DigiShield: a target of 3/4 to 3/2 of the previous block's."""
    last = target(branch.tree.bits(_before(branch, branch.height)))
    return _between(last * 3 // 4, last * 3 // 2) if branch.height >= _DIGISHIELD else range(1, 1 << 256)


def asert(anchor: int, seconds: int, blocks: int) -> int:
    """The bits that Bitcoin Cash requires after so many seconds and blocks since an anchor block with bits `anchor`.

    aserti3-2d: the anchor's target times two to the power of (seconds - 600 * (blocks + 1)) / two days, in integers:
    the fraction of the power is a cubic polynomial in 1/65536. Seconds count from the time of the anchor's parent.
    """
    late = (seconds - 600 * (blocks + 1)) * 65536
    exponent = late // _HALF_LIFE if late >= 0 else -(-late // _HALF_LIFE)
    shifts, part = exponent >> 16, exponent & 0xFFFF
    factor = 65536 + (195766423245049 * part + 971821376 * part**2 + 5127 * part**3 + (1 << 47) >> 48)
    limit = target(_BITCOIN_LIMIT)
    value = target(anchor) * factor
    value = value >> 16 - shifts if shifts <= 16 else value << min(shifts - 16, 256)
    return compact(min(max(value, 1), limit))


def _bitcoin_cash(branch: Branch, _header: UncheckedHeader) -> range:
    """The bits that Bitcoin Cash requires since November 2020. Earlier headers are below a checkpoint."""
    if branch.height < _ASERT_HEIGHT:
        return range(1, 1 << 256)
    last = _before(branch, branch.height)
    return _exactly(asert(_ASERT_BITS, branch.tree.time(last) - _ASERT_TIME, branch.height - _ASERT_HEIGHT))


def _between(hardest: int, easiest: int) -> range:
    return range(target(compact(hardest)), target(compact(min(easiest, target(_SCRYPT_LIMIT)))) + 1)


def bits_rule(network: Network) -> tuple[BitsRule | None, str]:
    """The rule of a network, None if none is checked, and its text for `checked` in status."""
    if network.coin == "bsv":
        return _bsv(network), ", required bits"
    if network.kind == "regtest":
        return _regtest, ", required bits"
    if network.name == "mainnet" and network.coin in ("btc", "bch"):
        return fortnightly if network.coin == "btc" else _bitcoin_cash, ", required bits"
    if network.name == "mainnet" and network.coin in SCRYPT:
        rule = _litecoin if network.coin == "ltc" else _dogecoin
        return rule, ", bits within what a retarget allows"
    return None, "; bits as each header names them"
