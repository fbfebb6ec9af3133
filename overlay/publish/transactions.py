"""Transactions of a publisher: the satoshi of the registration first, then coins that pay the fee, change last.

The registration's satoshi is the first of the first input and of the first output: it moves from one to the other first
in, first out (law 3).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from indexer.resolution.lineage import OutputRanges, SatLocation
from overlay.publish.coins import Coin, CoinsError, largest_first
from overlay.publish.keys import PublisherKey
from overlay.publish.scripts import payee
from parsers.bitcoin import address, beef, signatures
from parsers.bitcoin.bump import MerklePath
from parsers.bitcoin.script import OP_CODESEPARATOR, OP_ENDIF, OP_IF, OP_NOTIF, OP_RETURN, ops, p2pkh, pushes
from parsers.bitcoin.sighash import sign_p2pkh
from parsers.bitcoin.tx import Transaction, TxInput, TxOutput, read, serialise, varint
from parsers.errors import ParseError
from parsers.inscriptions import sigma
from parsers.inscriptions.map_protocol import SEPARATOR

UNLOCKING_BYTES = 108
"""Bytes of a P2PKH unlocking script at most: a signature of 72 and its hash type, a key of 33, and their lengths."""

DEFAULT_FEE_RATE = 50
"""Satoshis per 1,000 bytes."""

ABSURD_FEE_RATE = 10_000
"""A higher rate is taken for a mistake unless it is confirmed: two hundred times the default one."""

MAX_INPUTS = 1_000
_EXTENDED = bytes(5) + b"\xef"
_SEQUENCE, OP_CHECKSIG = 0xFFFFFFFF, 0xAC


@dataclass(frozen=True, slots=True)
class Draft:
    """A transaction, the coins that its inputs spend, their outputs, and its fee in satoshis."""

    tx: Transaction
    coins: tuple[Coin, ...]
    spent: tuple[TxOutput, ...]
    fee: int

    @classmethod
    def of(cls, tx: Transaction, coins: Sequence[Coin], owner: bytes = b"") -> Draft:
        """A transaction with inputs that spend these coins, in order; coins without a script have the script
        `owner`."""
        spent = tuple(TxOutput(coin.satoshis, coin.script or owner) for coin in coins)
        fee = sum(coin.satoshis for coin in coins) - sum(output.satoshis for output in tx.outputs)
        return cls(tx, tuple(coins), spent, fee)

    @property
    def destination(self) -> SatLocation:
        """Where the first satoshi of input 0 goes (law 3): only the outputs decide that, and every signature commits to
        all of them. Where that of a later input goes depends also on the values of the inputs before it: a signature
        commits to none of these."""
        return OutputRanges(self.tx.outputs, one_sat_rule=True).locate(0)

    @property
    def raw(self) -> bytes:
        """The serialised transaction."""
        return serialise(self.tx.inputs, self.tx.outputs)

    @property
    def extended(self) -> bytes:
        """The transaction in extended format (BRC-30), which ARC verifies without looking up its inputs."""
        parts = [self.raw[:4], _EXTENDED, varint(len(self.tx.inputs))]
        for tx_input, spent in zip(self.tx.inputs, self.spent, strict=True):
            parts += [tx_input.prevout.pack(), varint(len(tx_input.script)), tx_input.script]
            parts += [tx_input.sequence.to_bytes(4, "little"), spent.satoshis.to_bytes(8, "little")]
            parts += [varint(len(spent.script)), spent.script]
        parts.append(varint(len(self.tx.outputs)))
        for output in self.tx.outputs:
            parts += [output.satoshis.to_bytes(8, "little"), varint(len(output.script)), output.script]
        return b"".join([*parts, bytes(4)])


def fund(
    outputs: Sequence[TxOutput],
    coins: Sequence[Coin],
    owner: bytes,
    *,
    fee_rate: int = DEFAULT_FEE_RATE,
    first: Coin | None = None,
    merge: bool = False,
    least_change: int = 2,
) -> Draft:
    """An unsigned transaction with these outputs and change to `owner` (a P2PKH script, which all coins have).

    `first` is the registration's satoshi, spent by the first input. `merge`: there are no outputs but the change, into
    which that satoshi goes. Coins are added, the largest first, until the fee of `fee_rate` satoshis per 1,000 bytes is
    paid. Less than `least_change` satoshis of change are left to the fee: one satoshi could be taken for an
    inscription. Raises CoinsError when they do not suffice.
    """
    chosen = [first] if first is not None else []
    out = sum(output.satoshis for output in outputs)
    available = [coin for coin in largest_first(coins) if first is None or coin.outpoint != first.outpoint]
    for coin in (None, *available):
        if coin is not None:
            chosen.append(coin)
        if not chosen or len(chosen) > MAX_INPUTS:
            continue
        total = sum(coin.satoshis for coin in chosen)
        change = total - out - fee_of([*outputs, TxOutput(0, owner)], len(chosen), fee_rate)
        if change >= least_change:
            return _draft(chosen, (*outputs, TxOutput(change, owner)), owner)
        if not merge and total - out >= fee_of(outputs, len(chosen), fee_rate):
            return _draft(chosen, tuple(outputs), owner)
    least = out + fee_of([*outputs, TxOutput(0, owner)], len(chosen) + 1, fee_rate) + least_change
    total = sum(coin.satoshis for coin in available)
    raise CoinsError(
        f"{total:,} satoshis in {len(available)} coins do not suffice: some {least:,} are needed "
        "(coins of one satoshi are not used, as they may carry an inscription)"
    )


def fee_of(outputs: Sequence[TxOutput], inputs: int, rate: int) -> int:
    """The fee in satoshis, rounded up, of a transaction with so many P2PKH inputs at `rate` for 1,000 bytes."""
    return -(-_signed_size(outputs, inputs) * rate // 1_000)


def signed_size(tx: Transaction) -> int:
    """The bytes of a transaction, at most, whose inputs are all P2PKH, once they are signed."""
    return _signed_size(tx.outputs, len(tx.inputs))


def _signed_size(outputs: Sequence[TxOutput], inputs: int) -> int:
    size = 8 + len(varint(inputs)) + len(varint(len(outputs))) + inputs * (40 + 1 + UNLOCKING_BYTES)
    return size + sum(8 + len(varint(len(output.script))) + len(output.script) for output in outputs)


def _draft(chosen: Sequence[Coin], outputs: tuple[TxOutput, ...], owner: bytes) -> Draft:
    inputs = tuple(TxInput(coin.outpoint, b"", _SEQUENCE) for coin in chosen)
    return Draft.of(read(serialise(inputs, outputs)), chosen, owner)


def with_sigma(script: bytes, first_input: Coin, key: PublisherKey) -> bytes:
    """An output script with a SIGMA tape at its end: signed by `key`, bound to the outpoint of the first input."""
    bare = sigma.Sigma("BSM", key.address, b"", 0, len(script))
    tx = read(serialise((TxInput(first_input.outpoint, b"", _SEQUENCE),), (TxOutput(1, script),)))
    message = sigma.digest(bare, tx, 0) or b""
    signature = signatures.sign_message(key.private, signatures.signed_message_digest(message))
    return script + pushes(SEPARATOR, b"SIGMA", b"BSM", key.address.encode()) + _plain(signature) + _plain(b"0")


def _plain(data: bytes) -> bytes:
    return bytes((len(data),)) + data


def sign(draft: Draft, key: PublisherKey, *, forkid: bool = True) -> Draft:
    """The draft with every input signed by `key`; without `forkid` for BTC, LTC and DOGE. Raises CoinsError where a
    coin pays to another key."""
    for vin, spent in enumerate(draft.spent):
        if address.lock(spent.script) != key.script:
            holder = payee(spent.script, key.network)
            raise CoinsError(f"coin {draft.tx.inputs[vin].prevout} belongs to {holder}, not to {key.address}")
    inputs = tuple(
        tx_input._replace(
            script=sign_p2pkh(draft.tx, vin, key.private, spent.satoshis, script_code(spent.script), forkid=forkid)
        )
        for vin, (tx_input, spent) in enumerate(zip(draft.tx.inputs, draft.spent, strict=True))
    )
    return replace(draft, tx=read(serialise(inputs, draft.tx.outputs)))


def beef_of(draft: Draft) -> bytes | None:
    """The BEEF (V1) of a signed transaction, None where that of a coin is unknown. Raises CoinsError for an invalid
    BEEF of a coin, or one that does not contain the coin."""
    members: dict[bytes, tuple[bytes, MerklePath | None]] = {}
    for coin in draft.coins:
        if coin.beef is None:
            return None
        try:
            ancestors = beef.read(coin.beef)
        except ParseError as error:
            raise CoinsError(f"the BEEF of {coin.outpoint} cannot be read: {error}") from None
        if ancestors.member(coin.outpoint.txid) is None:
            raise CoinsError(f"the BEEF of {coin.outpoint} does not contain its transaction")
        for member in ancestors.members:
            if member.raw is None:
                return None
            path = None if member.path is None else ancestors.paths[member.path]
            if member.txid not in members or path is not None:
                members[member.txid] = member.raw, path
    return beef.write([*members.values(), (draft.raw, None)])


def change_of(tx: Transaction) -> list[Coin]:
    """The outputs of a signed transaction that may pay a later fee: P2PKH of a key that signed an input. Coins of them
    have no BEEF, as no block holds them yet."""
    keys = {
        p2pkh(signatures.hash160(pushed[-1].data))
        for tx_input in tx.inputs
        if (pushed := list(ops(tx_input.script))) and pushed[-1].data
    }
    return [
        Coin(tx.outpoint(vout), output.satoshis)
        for vout, output in enumerate(tx.outputs)
        if output.satoshis > 1 and output.script in keys
    ]


def script_code(script: bytes) -> bytes:
    """The part of a P2PKH script, with an envelope before or after it, that its OP_CHECKSIG signs: the part after the
    last OP_CODESEPARATOR that was executed before."""
    start = depth = 0
    for op in ops(script):
        if op.opcode in (OP_IF, OP_NOTIF):
            depth += 1
        elif op.opcode == OP_ENDIF:
            depth -= 1
        elif depth == 0 and op.opcode == OP_CODESEPARATOR:
            start = op.end
        elif depth == 0 and op.opcode in (OP_CHECKSIG, OP_RETURN):
            break
    return script[start:]
