"""What a header must meet on each network: the rules checked once, when a header arrives."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, NamedTuple

from indexer.chainwork import is_met, target
from indexer.headertree import Branch
from indexer.networks import SCRYPT, Network

MEDIAN_OF = 11

_LIMITS = {"ltc": 0x1E0FFFFF, "doge": 0x1E0FFFFF}
_SIGNET_LIMIT, _REGTEST_LIMIT, _BITCOIN_LIMIT = 0x1E0377AE, 0x207FFFFF, 0x1D00FFFF


class RuleError(Exception):
    """A header that breaks a rule; the message names the rule and what was found."""


class _Seen(NamedTuple):
    """What rules of required bits look at in a header before."""

    height: int
    timestamp: int
    bits: int


def easiest(network: Network) -> int:
    """The bits of the easiest target that the network allows."""
    if network.kind == "regtest":
        return _REGTEST_LIMIT
    return _SIGNET_LIMIT if network.name == "signet" else _LIMITS.get(network.coin, _BITCOIN_LIMIT)


class _BitcoinX:
    """A branch as bitcoinX' rules of required bits ask for it."""

    def __init__(self, branch: Branch) -> None:
        self._branch, self._tree = branch, branch.tree

    def _number(self, height: int) -> int:
        number = self._branch.at(height)
        if number is None:
            raise RuleError(f"its required bits cannot be known: they need the header at {height:,}")
        return number

    def header_at_height(self, height: int) -> _Seen:
        number = self._number(height)
        return _Seen(height, self._tree.time(number), self._tree.bits(number))

    def raw_header_at_height(self, height: int) -> bytes:
        return self._tree.raw(self._number(height))

    def chainwork_range(self, start: int, end: int) -> int:
        return self._tree.work(self._number(end - 1)) - self._tree.work(self._number(start - 1))

    def median_time_past(self, height: int) -> int:
        return median_time(self._branch, height)


def median_time(branch: Branch, height: int) -> int:
    """The median time of the blocks up to a height, at most eleven."""
    numbers = [branch.at(at) for at in range(max(branch.tree.first, height - MEDIAN_OF + 1), height + 1)]
    times = sorted(branch.tree.time(number) for number in numbers if number is not None)
    return times[len(times) // 2]


def _of_bitcoin_sv(network: Network) -> Callable[[Branch, int], int]:
    """Bits that a header on a branch with that time must have, by bitcoinX."""
    from bitcoinx import networks_by_name

    rules: Any = networks_by_name[network.name]

    def required(branch: Branch, time: int) -> int:
        bits: int = rules.required_bits(rules, _BitcoinX(branch), branch.height + 1, time)
        return bits

    return required


class Rules:
    """The rules of a network's headers. `checked` says in words which they are."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.uses_scrypt = network.coin in SCRYPT
        self._easiest = easiest(network)
        self._required: Callable[[Branch, int], int] | None = None
        if network.coin == "bsv":
            self._required = _of_bitcoin_sv(network)
            bits = "required bits by bitcoinX"
        elif network.kind == "regtest":
            self._required = lambda _branch, _time: _REGTEST_LIMIT
            bits = "required bits"
        else:
            bits = "bits as each header says"
        work = "proof of work (scrypt, above checkpoints only)" if self.uses_scrypt else "proof of work"
        self.checked = f"linkage, {work}, {bits}, median time past"

    def check(self, branch: Branch, raw: bytes, digest: bytes) -> None:
        """Check a header that would go on top of a branch. Raises RuleError."""
        bits, time = int.from_bytes(raw[72:76], "little"), int.from_bytes(raw[68:72], "little")
        if self._required is not None and bits != (required := self._required(branch, time)):
            raise RuleError(f"its bits are {bits:08x} where {required:08x} is required")
        earliest = median_time(branch, branch.height)
        if time <= earliest:
            raise RuleError(f"its time {time} is not after {earliest}, the median of those before")
        self.check_work(raw, digest)

    def check_work(self, raw: bytes, digest: bytes) -> None:
        """Check a header's proof of work against its own bits. Raises RuleError."""
        bits = int.from_bytes(raw[72:76], "little")
        if not 0 < target(bits) <= target(self._easiest):
            raise RuleError(f"its bits {bits:08x} are easier than {self._easiest:08x}, or mean nothing")
        proof = hashlib.scrypt(raw, salt=raw, n=1024, r=1, p=1, dklen=32) if self.uses_scrypt else digest
        if not is_met(proof, bits):
            raise RuleError(f"its proof of work does not meet its bits {bits:08x}")
