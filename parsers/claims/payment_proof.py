"""Payments that receipts name: the payer of a transaction in a block, and the amounts paid to the addresses of offers.
Pure: the caller checks whether the chain has the block of the merkle path.

The payer is the key that unlocked the first input. It counts only with the transaction that this input spends, which
shows that the output was locked to that key: anybody can put the key of another into a script that requires no
signature.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

from parsers.bitcoin import address, beef
from parsers.bitcoin.script import is_p2pkh, ops, p2pkh
from parsers.bitcoin.signatures import hash160
from parsers.bitcoin.tx import Transaction, TxOutput, read_exactly
from parsers.cards.offers import Offer
from parsers.claims.amount_due import due, satoshis
from parsers.claims.canonical_json import DocumentError
from parsers.claims.payment import UtxoChain
from parsers.errors import ParseError

MAX_PROOF_BYTES, MAX_ITEMS = 256 << 10, 5_000
"""Bytes of a BEEF, and of a parent; nodes, inputs and outputs in them."""

MAX_PRICE = 2**63 - 1
"""The maximum of a price in satoshis; the amount of a card may be greater, but nobody can pay it."""

TASK_PREFIX = "bsv:tx:"
"""A task that is bound to a payment is named `bsv:tx:<txid>` (Motebit's `{rail}:tx:{txHash}`)."""


class ProvedPayment(NamedTuple):
    """A transaction in the block of a height and merkle root (internal byte order). `payer` is the script of the output
    that the first input spends, b"" where the parent is not there; `funding` the txid of that parent in hex."""

    txid: str
    outputs: Sequence[TxOutput]
    payer: bytes
    funding: str
    height: int
    root: bytes

    def payer_address(self, chain: UtxoChain) -> str:
        """The address of the payer; "" where it is unknown."""
        return address.address(self.payer, address.PREFIXES[chain.coin][chain.network]) or "" if self.payer else ""

    def received(self, chain: UtxoChain) -> dict[str, int]:
        """The satoshis that were paid to each P2PKH address."""
        prefixes = address.PREFIXES[chain.coin][chain.network]
        sums: dict[str, int] = {}
        for output in self.outputs:
            if is_p2pkh(output.script):
                text = address.address(output.script, prefixes) or ""
                sums[text] = sums.get(text, 0) + output.satoshis
        return sums


class PaidOffer(NamedTuple):
    """The amount paid to the address of an offer, and its price; in satoshis."""

    paid: int
    price: int


def bound_txid(*names: object) -> str:
    """The txid (hex) that the task or relay task of a receipt names, "" for none."""
    for name in names:
        text = name[len(TASK_PREFIX) :] if isinstance(name, str) and name.startswith(TASK_PREFIX) else ""
        if len(text) == 64 and not set(text) - set("0123456789abcdef"):
            return text
    return ""


def read_payment(data: bytes, parent: bytes | None = None) -> ProvedPayment:
    """The newest transaction of a BEEF, with its merkle path. `parent` is the raw transaction that its first input
    spends, where the BEEF does not hold it. Raises DocumentError: bad-payment."""
    if max(len(data), len(parent or b"")) > MAX_PROOF_BYTES:
        raise _refused(f"a proof of a payment is at most {MAX_PROOF_BYTES:,} bytes")
    try:
        proof = beef.read(data, MAX_ITEMS)
        spent = None if parent is None else read_exactly(parent, max_items=MAX_ITEMS)
    except ParseError as error:
        raise _refused(str(error)) from None
    subject = proof.newest
    if subject.tx is None or subject.path is None:
        raise _refused("the newest transaction of the BEEF has no merkle path, or is only a txid")
    path, first = proof.paths[subject.path], subject.tx.inputs[0].prevout
    held = proof.member(first.txid)
    if spent is not None and spent.txid != first.txid:
        raise _refused("the parent is not the transaction that the first input spends")
    return ProvedPayment(
        txid=subject.tx.hex_id,
        outputs=subject.tx.outputs,
        payer=_payer(subject.tx, spent or (held.tx if held else None)),
        funding=first.txid[::-1].hex(),
        height=path.height,
        root=path.merkle_root,
    )


def _payer(tx: Transaction, parent: Transaction | None) -> bytes:
    """The P2PKH script of the output that the first input spends, where its key fits."""
    vout = tx.inputs[0].prevout.vout
    if parent is None or vout >= len(parent.outputs):
        return b""
    script = parent.outputs[vout].script
    pushed = [op.data for op in ops(tx.inputs[0].script)]
    if len(pushed) != 2 or not pushed[1] or p2pkh(hash160(pushed[1])) != script:
        return b""
    return script


def paid_offer(
    payment: ProvedPayment, offers: Collection[Offer], chain: UtxoChain, stages: Collection[str] = ("full", "final")
) -> PaidOffer | None:
    """The paid offer, of those priced in the chain's coin: the dearest with its price paid to its P2PKH address, else
    the cheapest with any payment; None without a payment. Where an offer has a deposit, what is due at one of `stages`
    is its price: of paid work the receipt names the final payment."""
    received = payment.received(chain)
    pairs = [
        PaidOffer(received[offer.address.strip()], _price(offer, stage))
        for offer in offers
        if offer.currency == chain.coin.upper() and offer.address.strip() in received
        for stage in stages
        if stage == "full" or offer.deposit_pct is not None
    ]
    paid = [pair for pair in pairs if pair.paid >= pair.price]
    return max(paid, key=lambda pair: pair.price) if paid else min(pairs, key=lambda pair: pair.price, default=None)


def _price(offer: Offer, stage: str) -> int:
    return min(max(satoshis(due(offer, stage, offer.currency, None).amount), 1), MAX_PRICE)


def _refused(detail: str) -> DocumentError:
    return DocumentError("bad-payment", detail)
