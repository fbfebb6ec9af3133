"""Unsigned registrations as a file that a wallet signs; the private key is never here.

`extended` is the unsigned transaction in extended format (BRC-30), with the values and scripts that signatures commit
to; `createAction` holds the same outputs as the arguments of a BRC-100 wallet, which chooses the inputs itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from overlay.publish import scripts
from overlay.publish.coins import SUPPLY, Coin, CoinsError
from overlay.publish.registration_output import RegistrationError, RegistrationOutput
from overlay.publish.transactions import DEFAULT_FEE_RATE, UNLOCKING_BYTES, Draft, fee_of, fund, script_code
from parsers.bitcoin import beef
from parsers.bitcoin.address import key_hash, lock
from parsers.bitcoin.script import p2pkh
from parsers.bitcoin.sighash import forkid_digest
from parsers.bitcoin.tx import Outpoint, TxOutput, read_exactly
from parsers.cards import Kind
from parsers.errors import ParseError

MAX_COINS = 100
"""Inputs of a transaction that is read from a file."""

MAX_BEEF_ITEMS = 100_000
"""Parts of a BEEF from a wallet."""


class UnsignedRegistration(NamedTuple):
    """The outputs that register, update or transfer a card, none to delist it; the transaction around them where coins
    were passed, else None; the fee in satoshis, without coins that of one input with change; and the registration that
    is spent, with its id."""

    outputs: tuple[TxOutput, ...]
    draft: Draft | None
    fee: int
    spent: Coin | None = None
    listing: str = ""

    def as_json(self) -> dict[str, Any]:
        """The file for a wallet."""
        file = {"fee": self.fee, "createAction": self._action()}
        if self.listing:
            file["listing"] = self.listing
        return file | (draft_json(self.draft) if self.draft else {})

    def _action(self) -> dict[str, Any]:
        """The arguments of `createAction` of a BRC-100 wallet. The order of outputs decides where the satoshi moves."""
        outputs = [
            {"satoshis": output.satoshis, "lockingScript": output.script.hex(), "outputDescription": "A2B registration"}
            for output in self.outputs
        ]
        action: dict[str, Any] = {"description": "Register on A2B", "outputs": outputs}
        if self.spent is not None:
            action["inputs"] = [{
                "outpoint": f"{self.spent.outpoint.txid[::-1].hex()}.{self.spent.outpoint.vout}",
                "inputDescription": "A2B registration", "unlockingScriptLength": UNLOCKING_BYTES,
            }]  # fmt: skip
            if self.spent.beef is not None:
                action["inputBEEF"] = list(self.spent.beef)
        return action | {"options": {"randomizeOutputs": False}}


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
    """The registration of a card for the holder of an address, who also gets the change. Raises ValueError for an
    invalid address or app, CoinsError where the coins do not suffice."""
    hash160 = key_hash(owner)
    if hash160 is None:
        raise ValueError(f"{owner[:100]!a} is not a P2PKH address of Bitcoin SV")
    script = p2pkh(hash160)
    return _unsigned([scripts.inscription(script, card, kind, app)], script, coins, fee_rate)


def unsigned_change(
    registration: RegistrationOutput, scripts_of_outputs: Sequence[bytes], coins: Sequence[Coin], *,
    fee_rate: int = DEFAULT_FEE_RATE, listing: str,
) -> UnsignedRegistration:  # fmt: skip
    """The transaction that moves a registration's satoshi to the first of these scripts, or without one merges it into
    the change of its owner, who also pays. Raises CoinsError, RegistrationError for an owner without an address."""
    script = lock(registration.coin.script or b"")
    if script is None or key_hash(registration.owner) is None:
        raise RegistrationError(f"{listing} is not held by a P2PKH address, so its owner must build the transaction")
    return _unsigned(scripts_of_outputs, script, coins, fee_rate, registration.coin, listing)


def _unsigned(
    scripts_of_outputs: Sequence[bytes], owner: bytes, coins: Sequence[Coin], fee_rate: int, spent: Coin | None = None,
    listing: str = "",
) -> UnsignedRegistration:  # fmt: skip
    outputs = tuple(TxOutput(1, script) for script in scripts_of_outputs)
    if not coins:
        inputs = 1 if spent is None else 2
        return UnsignedRegistration(
            outputs, None, fee_of([*outputs, TxOutput(0, owner)], inputs, fee_rate), spent, listing
        )
    draft = fund(outputs, coins, owner, fee_rate=fee_rate, first=spent, merge=not outputs)
    return UnsignedRegistration(outputs, draft, draft.fee, spent, listing)


def digest_to_sign(built: UnsignedRegistration, transaction: str) -> bytes:
    """The digest that the registration's key signs in the transaction that a wallet built (BEEF, hex): its input 0
    spends the registration, and its first outputs are those that were prepared, or it merges the satoshi. Raises
    ValueError."""
    try:
        tx = beef.read(bytes.fromhex(transaction), MAX_BEEF_ITEMS).newest.tx
    except (ParseError, ValueError) as error:
        raise ValueError(f"the wallet's transaction cannot be read: {error}") from None
    spent = built.spent
    if tx is None or spent is None or tx.inputs[0].prevout != spent.outpoint:
        raise ValueError("the wallet's transaction does not spend the listing by input 0")
    if tx.outputs[: len(built.outputs)] != built.outputs:
        raise ValueError("the wallet's transaction does not begin with the outputs that were prepared")
    if not built.outputs and not Draft.of(tx, [spent]).destination.burned:
        raise ValueError("the wallet's transaction does not merge the satoshi of the listing")
    return forkid_digest(tx, 0, script_code(spent.script or b""), spent.satoshis)


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
    if any(type(coin.satoshis) is not int or not 0 <= coin.satoshis <= SUPPLY for coin in coins):
        raise CoinsError("the inputs of the file have no satoshis")
    draft = Draft.of(tx, coins)
    if draft.fee < 0:
        raise CoinsError(f"the outputs hold {-draft.fee:,} satoshis more than the inputs")
    return draft
