"""What a header must meet on each network: the rules checked once, when a header arrives.

Not checked: how far its time is ahead of our clock, which would make validity depend on when it is asked; its version;
the rules of transactions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

from indexer import merged
from indexer.chains.auxpow import has_work_of_another
from indexer.chainwork import compact, is_met, target
from indexer.networks import SCRYPT, Network
from indexer.rawheaders import Branch
from parsers.errors import ParseError

MEDIAN_OF = 11

PERIOD = 2_016
_ALWAYS = "linkage, proof of work, median time past"
_DIGISHIELD = 145_000
_ASERT_HEIGHT, _ASERT_BITS, _ASERT_TIME = 661_647, 0x1804DAFE, 1_605_447_844
"""The block that Bitcoin Cash counts from: its height, its bits, and the time of its parent."""

_HALF_LIFE = 2 * 24 * 3600
_FORTNIGHT = 14 * 24 * 3600
_BITCOIN_LIMIT, _SIGNET_LIMIT, _SCRYPT_LIMIT, _REGTEST_LIMIT = 0x1D00FFFF, 0x1E0377AE, 0x1E0FFFFF, 0x207FFFFF


_NO_AUXPOW = (
    "it is merge-mined, and came without that proof of work (AuxPoW); a source that cannot give it is followed only "
    "with ?auxpow=unchecked in the chain's URL, and the chain's listings then carry the warning headers-unproved"
)


class RuleError(Exception):
    """A header that breaks a rule; the message names the rule and what was found."""


class Arrived(NamedTuple):
    """A header of 80 bytes to be checked. `aux` is what follows it on Dogecoin; `buried`: a later checkpoint commits to
    it, if this is the right chain, so that scrypt is not asked for."""

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
    """The median time of a branch's blocks up to a height, eleven where there are as many."""
    numbers = [branch.at(at) for at in range(max(branch.tree.first, height - MEDIAN_OF + 1), height + 1)]
    times = sorted(branch.tree.time(number) for number in numbers if number is not None)
    return times[len(times) // 2]


def _before(branch: Branch, height: int) -> int:
    """The number of a branch's block at a height. Raises RuleError where it is not known."""
    number = branch.at(height)
    if number is None:
        raise RuleError(f"its required bits cannot be known without the header at {height:,}")
    return number


class _Seen(NamedTuple):
    """What bitcoinX' rules look at in a header."""

    height: int
    timestamp: int
    bits: int


class _BitcoinX:
    """A branch as bitcoinX' rules of required bits ask for it."""

    def __init__(self, branch: Branch) -> None:
        self._branch, self._tree = branch, branch.tree

    def header_at_height(self, height: int) -> _Seen:
        number = _before(self._branch, height)
        return _Seen(height, self._tree.time(number), self._tree.bits(number))

    def raw_header_at_height(self, height: int) -> bytes:
        return self._tree.raw(_before(self._branch, height))

    def chainwork_range(self, start: int, end: int) -> int:
        """The work of the blocks from `start` up to before `end`: a difference of sums, where bitcoinX adds anew."""
        return self._tree.work(_before(self._branch, end - 1)) - self._tree.work(_before(self._branch, start - 1))

    def median_time_past(self, height: int) -> int:
        return median_time(self._branch, height)


BitsRule = Callable[[Branch, Arrived], range]
"""The bits that the header on top of a branch may have, as targets: from the hardest to before the easiest allowed."""


def _exactly(bits: int) -> range:
    return range(target(bits), target(bits) + 1)


def _by_bitcoinx(network: Network) -> BitsRule:
    from bitcoinx import networks_by_name

    rules: Any = networks_by_name[network.name]
    return lambda branch, header: _exactly(
        rules.required_bits(rules, _BitcoinX(branch), branch.height + 1, header.time)
    )


def fortnightly(branch: Branch, _header: Arrived) -> range:
    """What Bitcoin requires: new bits every 2,016 blocks, by the time these took."""
    height, tree = branch.height + 1, branch.tree
    last = _before(branch, height - 1)
    if height % PERIOD:
        return _exactly(tree.bits(last))
    took = tree.time(last) - tree.time(_before(branch, height - PERIOD))
    took = min(max(took, _FORTNIGHT // 4), _FORTNIGHT * 4)
    return _exactly(compact(min(target(tree.bits(last)) * took // _FORTNIGHT, target(_BITCOIN_LIMIT))))


def _litecoin(branch: Branch, _header: Arrived) -> range:
    """What Litecoin allows: bits change every 2,016 blocks, fourfold at most."""
    last = branch.tree.bits(_before(branch, branch.height))
    if (branch.height + 1) % PERIOD:
        return _exactly(last)
    return _between(target(last) // 4, target(last) * 4)


def _dogecoin(branch: Branch, _header: Arrived) -> range:
    """What Dogecoin allows since DigiShield: with every block a target between three quarters and one and a half."""
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


def _bitcoin_cash(branch: Branch, _header: Arrived) -> range:
    """What Bitcoin Cash requires since November 2020; before, headers of another rule are buried under a checkpoint."""
    if branch.height < _ASERT_HEIGHT:
        return range(1, 1 << 256)
    last = _before(branch, branch.height)
    return _exactly(asert(_ASERT_BITS, branch.tree.time(last) - _ASERT_TIME, branch.height - _ASERT_HEIGHT))


def _between(hardest: int, easiest: int) -> range:
    return range(target(compact(hardest)), target(compact(min(easiest, target(_SCRYPT_LIMIT)))) + 1)


class Rules:
    """The rules of a network's headers. `checked` says in words which they are.

    With `auxpow_unchecked`, merge-mined headers are taken also without the work on the other chain's header.
    """

    def __init__(self, network: Network, *, auxpow_unchecked: bool = False) -> None:
        self.network = network
        self.uses_scrypt = network.coin in SCRYPT
        self.auxpow_unchecked = auxpow_unchecked
        self._easiest = easiest(network)
        self._required, self.checked = self._of(network)

    @staticmethod
    def _of(network: Network) -> tuple[BitsRule | None, str]:
        """The rule of required bits, and what is checked in words."""
        if network.coin == "bsv":
            return _by_bitcoinx(network), f"{_ALWAYS}, required bits (by bitcoinX)"
        if network.kind == "regtest":
            return lambda _branch, _header: _exactly(_REGTEST_LIMIT), f"{_ALWAYS}, required bits"
        if network.name == "mainnet" and network.coin in ("btc", "bch"):
            return fortnightly if network.coin == "btc" else _bitcoin_cash, f"{_ALWAYS}, required bits"
        if network.name == "mainnet" and network.coin in SCRYPT:
            rule = _litecoin if network.coin == "ltc" else _dogecoin
            return rule, f"{_ALWAYS}, bits within what a retarget allows"
        return None, f"{_ALWAYS}; bits as each header names them"

    @property
    def requires_bits(self) -> bool:
        """Whether a rule says which bits a header must have; else it has the work that its maker chose to do."""
        return self._required is not None

    def check(self, branch: Branch, header: Arrived) -> None:
        """Check a header that would go on top of a branch. Raises RuleError."""
        if self._required is not None:
            self._check_bits(header.bits, self._required(branch, header))
        earliest = median_time(branch, branch.height)
        if header.time <= earliest:
            raise RuleError(f"its time {header.time} is not after {earliest}, the median of those before")
        self.check_work(header)

    @staticmethod
    def _check_bits(bits: int, allowed: range) -> None:
        hardest, easiest = compact(allowed.start), compact(allowed.stop - 1)
        if hardest == easiest and bits != hardest:
            raise RuleError(f"its bits are {bits:08x} where {hardest:08x} is required")
        if target(bits) not in allowed:
            raise RuleError(f"its bits are {bits:08x}, not between {hardest:08x} and {easiest:08x}")

    def check_work(self, header: Arrived) -> None:
        """Check a header's proof of work against its own bits, as far as that is asked for. Raises RuleError."""
        if not 0 < target(header.bits) <= target(self._easiest):
            raise RuleError(f"its bits {header.bits:08x} mean nothing, or less work than {self._easiest:08x}")
        if self.uses_scrypt and header.buried:
            return
        worked = header.raw
        if self.network.coin == "doge" and has_work_of_another(header.raw):
            if header.aux is None:
                if self.auxpow_unchecked:
                    return
                raise RuleError(_NO_AUXPOW)
            worked = self._merged(header.raw, header.aux)
        digest = scrypt(worked) if self.uses_scrypt else header.digest
        if not is_met(digest, header.bits):
            raise RuleError(f"its proof of work does not meet its bits {header.bits:08x}")

    def _merged(self, raw: bytes, aux: bytes) -> bytes:
        """The other chain's header that was worked on. Raises RuleError where that was not work on this one."""
        try:
            work = merged.read(aux)
        except ParseError as error:
            raise RuleError(f"its merge-mined proof of work cannot be read: {error}") from error
        why = merged.fault(raw, work, strict=self.network.kind != "testnet")
        if why is not None:
            raise RuleError(f"its merge-mined proof of work is not its own: {why}")
        return work.parent


def scrypt(header: bytes) -> bytes:
    """The hash that work is proved over on LTC and DOGE: 0.4 ms a header, measured."""
    return hashlib.scrypt(header, salt=header, n=1024, r=1, p=1, dklen=32)
