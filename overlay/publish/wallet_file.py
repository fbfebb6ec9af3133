"""Unsigned registrations as a file that a wallet signs; the private key is never here.

`extended` is the unsigned transaction in extended format (BRC-30), with the values and scripts that signatures commit
to; `createAction` holds the same outputs as the arguments of a BRC-100 wallet, which chooses the inputs itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from overlay.publish import scripts
from overlay.publish.coins import Coin, CoinsError
from overlay.publish.transactions import DEFAULT_FEE_RATE, Draft, fee_of, fund
from parsers.bitcoin.address import key_hash
from parsers.bitcoin.script import p2pkh
from parsers.bitcoin.tx import Outpoint, TxOutput, read_exactly
from parsers.cards import Kind
from parsers.errors import ParseError

MAX_COINS = 100
"""Inputs of a transaction that is read from a file."""


class UnsignedRegistration(NamedTuple):
    """The output that registers a card; the transaction around it where coins were given, else None; the fee in
    satoshis, without coins that of one input with change."""

    output: TxOutput
    draft: Draft | None
    fee: int

    def as_json(self) -> dict[str, Any]:
        """The file for a wallet."""
        output = {"satoshis": self.output.satoshis, "lockingScript": self.output.script.hex()}
        action = {"description": "Register on A2B", "outputs": [output | {"outputDescription": "A2B registration"}]}
        return {"fee": self.fee, "createAction": action} | (draft_json(self.draft) if self.draft else {})


def draft_json(draft: Draft) -> dict[str, Any]:
    """An unsigned transaction with what its inputs spend."""
    inputs = [
        {"outpoint": str(coin.outpoint), "satoshis": spent.satoshis, "script": spent.script.hex()}
        for coin, spent in zip(draft.coins, draft.spent, strict=True)
    ]
    return {"rawTx": draft.raw.hex(), "extended": draft.extended.hex(), "inputs": inputs}


def unsigned_registration(
    card: bytes, kind: Kind, app: str, owner: str, coins: Sequence[Coin], *, fee_rate: int = DEFAULT_FEE_RATE
) -> UnsignedRegistration:
    """The registration of a card for the holder of an address, who also gets the change. Raises ValueError for what is
    no address or app, CoinsError where the coins do not suffice."""
    hash160 = key_hash(owner)
    if hash160 is None:
        raise ValueError(f"{owner[:100]!a} is not a P2PKH address of Bitcoin SV")
    script = p2pkh(hash160)
    output = TxOutput(1, scripts.inscription(script, card, kind, app))
    if not coins:
        return UnsignedRegistration(output, None, fee_of([output, TxOutput(0, script)], 1, fee_rate))
    draft = fund([output], coins, script, fee_rate=fee_rate)
    return UnsignedRegistration(output, draft, draft.fee)


def read_draft(value: Any) -> Draft:
    """The unsigned transaction in a wallet file. Raises CoinsError."""
    try:
        tx = read_exactly(bytes.fromhex(value["rawTx"]))
        coins = [Coin(Outpoint.parse(entry["outpoint"]), entry["satoshis"], bytes.fromhex(entry["script"]))
                 for entry in value["inputs"][:MAX_COINS]]  # fmt: skip
    except (ParseError, ValueError, KeyError, TypeError, AttributeError):
        raise CoinsError("the file holds no unsigned transaction with the outputs that it spends") from None
    if not coins or [coin.outpoint for coin in coins] != [tx_input.prevout for tx_input in tx.inputs]:
        raise CoinsError("the inputs of the file are not those of its transaction")
    if any(type(coin.satoshis) is not int or coin.satoshis < 0 for coin in coins):
        raise CoinsError("the inputs of the file have no satoshis")
    draft = Draft.of(tx, coins)
    if draft.fee < 0:
        raise CoinsError(f"the outputs hold {-draft.fee:,} satoshis more than the inputs")
    return draft
