"""Take a hire back: spend the coins of its last claim to oneself, where the agent has no reason to send it any more. It
is the only transaction that a client sends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from indexer.errors import RefusedTransactionError
from overlay.client.hire.hiring import HireError
from overlay.client.hire.journal import Hire, HireState
from overlay.client.hire.wallet import Wallet
from overlay.client.payment_claims import FORKID_COINS, usual_fee_rate
from overlay.publish.coins import Coin
from overlay.publish.relay_policy import RELAYED
from overlay.publish.transactions import Draft, fee_of, sign
from parsers.bitcoin.tx import Outpoint, TxInput, TxOutput, read, serialise

SILENCE_SECONDS = 1_800
"""Seconds without a sign of an agent from which on a hire may be taken back: final payments are due for so long."""

_NEVER_SENT = frozenset((HireState.AGREED, HireState.SIGNED, HireState.FINAL_SIGNED))
_OVER = frozenset((HireState.FAILED, HireState.REFUSED))

Send = Callable[[Draft], Awaitable[object]]
"""Sends a signed transaction; raises RefusedTransactionError where its coins are spent already, SourceError."""


def objection(hire: Hire, now: int) -> str:
    """Why a hire may not be taken back at a time (seconds since 1970), and who could lose what; "" where it may be."""
    if hire.state in (HireState.DONE, HireState.ANSWERED, HireState.CANCELLED):
        return f"it is {hire.state.value}: there is nothing to take back"
    silent = now - hire.heard_at
    if hire.state in _NEVER_SENT | _OVER or silent >= SILENCE_SECONDS:
        return ""
    return (
        f"{hire.agent} may be working on it, and would lose its work: the claim that it has would pay no more. Wait "
        f"for the answer with --resume, or for {(SILENCE_SECONDS - silent + 59) // 60} minutes without a sign of it"
    )


async def cancel(hire: Hire, wallet: Wallet, send: Send) -> Hire:
    """Take a hire back. Raises HireError where it may not be, or where the agent has sent the claim."""
    journal = wallet.journal
    if why := objection(hire, journal.now()):
        raise HireError(f"{hire.id} is not taken back: {why}")
    if not hire.claims:
        return journal.save(hire, state=HireState.CANCELLED)
    draft = respend(hire, wallet)
    try:
        await send(draft)
    except RefusedTransactionError as error:
        detail = f"the node refuses to spend its coins again ({error}): {hire.agent} has probably sent the claim"
        journal.save(hire, detail=detail)
        raise HireError(detail) from None
    wallet.credit(hire.currency, [draft.tx])  # a hire killed while it signed has them in the file
    return journal.save(hire, state=HireState.CANCELLED)


def respend(hire: Hire, wallet: Wallet) -> Draft:
    """The signed transaction that pays the coins of the last claim of a hire to its wallet."""
    coin = hire.currency.lower()
    rate = usual_fee_rate(hire.currency)
    coins = [Coin(Outpoint.parse(text), satoshis) for text, satoshis in hire.spends[-1].items()]
    script = wallet.key.script
    total = sum(coin.satoshis for coin in coins) - 2 * fee_of([TxOutput(0, script)], len(coins), rate)
    if total <= RELAYED[coin][1]:
        raise HireError(f"the coins of {hire.id} are worth less than the fee")
    inputs = tuple(TxInput(coin.outpoint, b"", 0xFFFFFFFF) for coin in coins)
    unsigned = Draft.of(read(serialise(inputs, (TxOutput(total, script),))), coins, script)
    return sign(unsigned, wallet.key, forkid=coin in FORKID_COINS)
