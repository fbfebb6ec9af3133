"""The rules for headers of each network, checked once for each header.

Not checked: whether its time is in the future, since validity would then depend on the time of the check; its version;
rules for transactions.
"""

from __future__ import annotations

import hashlib

from indexer.headers import proof_of_work
from indexer.headers.networks import SCRYPT, Network
from indexer.headers.proof_of_work import compact, is_merge_mined, is_met, target
from indexer.headers.raw_tree import Branch
from indexer.headers.required_bits import RuleError, UncheckedHeader, bits_rule, easiest, median_time
from parsers.errors import ParseError

_NO_AUXPOW = (
    "it is merge-mined, but came without its proof of work (AuxPoW); a source that cannot deliver it is followed only "
    "with ?auxpow=unchecked in the chain's URL, and the chain's listings then carry the warning headers-unproved"
)


class HeaderRules:
    """The header rules of a network. `checked` lists them as text.

    With `auxpow_unchecked`, merge-mined headers without AuxPoW are accepted.
    """

    def __init__(self, network: Network, *, auxpow_unchecked: bool = False) -> None:
        self.network = network
        self.uses_scrypt = network.coin in SCRYPT
        self.auxpow_unchecked = auxpow_unchecked
        self._easiest = easiest(network)
        self.required, rule_name = bits_rule(network)
        self.checked = f"linkage, proof of work, median time past{rule_name}"

    @property
    def requires_bits(self) -> bool:
        """Whether required bits are checked. If not, a miner can choose any difficulty."""
        return self.required is not None

    def check(self, branch: Branch, header: UncheckedHeader) -> None:
        """Check a header on top of a branch. Raises RuleError."""
        if self.required is not None:
            self._check_bits(header.bits, self.required(branch, header))
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

    def check_work(self, header: UncheckedHeader) -> None:
        """Check a header's proof of work against its own bits; scrypt and AuxPoW only if required. Raises RuleError."""
        if not 0 < target(header.bits) <= target(self._easiest):
            raise RuleError(f"its bits {header.bits:08x} are invalid, or less work than {self._easiest:08x}")
        if self.uses_scrypt and header.buried:
            return
        worked = header.raw
        if self.network.coin == "doge" and is_merge_mined(header.raw):
            if header.aux is None:
                if self.auxpow_unchecked:
                    return
                raise RuleError(_NO_AUXPOW)
            worked = self._merged(header.raw, header.aux)
        digest = scrypt(worked) if self.uses_scrypt else header.digest
        if not is_met(digest, header.bits):
            raise RuleError(f"its proof of work does not meet its bits {header.bits:08x}")

    def _merged(self, raw: bytes, aux: bytes) -> bytes:
        """The parent chain's header. Raises RuleError if its work does not commit to this header."""
        try:
            work = proof_of_work.read_auxpow(aux)
        except ParseError as error:
            raise RuleError(f"its merge-mined proof of work cannot be parsed: {error}") from error
        why = proof_of_work.auxpow_fault(raw, work, strict=self.network.kind != "testnet")
        if why is not None:
            raise RuleError(f"its merge-mined proof of work does not commit to it: {why}")
        return work.parent


def scrypt(header: bytes) -> bytes:
    """The proof-of-work hash of LTC and DOGE. Takes 0.4 ms for a header, measured."""
    return hashlib.scrypt(header, salt=header, n=1024, r=1, p=1, dklen=32)
