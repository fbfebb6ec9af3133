"""Money in and out of a relay on a real litecoind: a deposit that it sends, a withdrawal, and a reorganisation."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from indexer.chains.node.payment_node import PaymentNode
from indexer.store import connect
from overlay.systems.relay import accounts
from overlay.systems.relay.bank import DEPTH, Bank, change_of, is_signed_form
from overlay.systems.relay.store_ledger import CHAIN
from parsers.bitcoin.script import OP_RETURN, push
from parsers.bitcoin.tx import TxInput, TxOutput, read, serialise
from tests.conftest import missing
from tests.litecoind import Litecoind, binary
from tests.overlay.payments.test_litecoind_story import COIN, FEE, Wallet
from tests.overlay.relay.kit import AGENTS, World, coins_of
from tests.parsers.claims.motebit.signers import ALICE

AMOUNT = COIN - FEE


@pytest.fixture(scope="module")
def wallet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Wallet]:
    if binary() is None:
        missing("litecoind")
    with Litecoind(tmp_path_factory.mktemp("litecoind") / "node") as node:
        node.fund()
        yield Wallet(node)


@pytest.fixture
async def node(wallet: Wallet) -> AsyncIterator[PaymentNode]:
    node = PaymentNode("lite", f"{wallet.node.cookie_url}&chain=ltc")
    yield node
    await node.close()


class Teller:
    """A relay whose operator has the node's wallet."""

    def __init__(self, world: World, wallet: Wallet, node: PaymentNode) -> None:
        self.world, self.wallet = world, wallet
        self.bank = world.relay.bank = Bank(world.store.cash, node, wallet.server, lambda: world.time)

    async def deposit(self) -> str:
        """A transaction that nobody has sent yet, announced: its status."""
        outputs = (
            TxOutput(AMOUNT, bytes.fromhex(self.wallet.node.rpc("getaddressinfo", self.wallet.server)["scriptPubKey"])),
            TxOutput(0, bytes((OP_RETURN,)) + push(ALICE.id.encode())),
        )
        raw = self.sign(serialise((TxInput(self.wallet.coin(), b"", 0xFFFFFFFF),), outputs, 2))
        token = self.world.token(ALICE, "account:deposit")
        return str((await accounts.deposit(self.world.relay, token, ALICE.id, raw))["status"])

    def sign(self, unsigned: bytes) -> bytes:
        signed = self.wallet.node.rpc("signrawtransactionwithwallet", unsigned.hex())
        assert signed["complete"], signed
        return bytes.fromhex(signed["hex"])

    async def request(self, amount: int) -> dict[str, Any]:
        """A withdrawal that is not signed, to a new address."""
        destination = self.wallet.node.rpc("getnewaddress", "", "legacy")
        token = self.world.token(ALICE, "account:withdraw")
        answer = await accounts.withdraw(self.world.relay, token, ALICE.id, amount, destination, None)
        withdrawal: dict[str, Any] = answer["withdrawal"]
        return withdrawal

    async def cancel(self, id_: str) -> bool:
        """Whether a withdrawal is cancelled now, and was not before."""
        withdrawal = self.world.store.cash.withdrawal(id_)
        assert withdrawal
        return self.world.store.cash.cancel(withdrawal, int(self.world.time))

    async def withdraw(self, amount: int) -> tuple[bytes, str]:
        """A withdrawal that is signed, and the address that it pays to."""
        answer = await self.request(amount)
        destination = str(answer["destination"])
        signed = self.sign(bytes.fromhex(answer["unsigned_tx"]))
        (withdrawal,) = self.world.store.cash.open_withdrawals()
        assert is_signed_form(withdrawal, read(signed, segwit=True))
        change = change_of(read(signed, segwit=True))
        assert self.world.store.cash.sign(withdrawal, signed, change, int(self.world.time))
        return signed, destination

    async def after(self, blocks: int) -> int:
        """Alice's balance once so many more blocks are looked at."""
        for _ in range(blocks):
            self.wallet.node.mine()
        await self.bank.watch()
        return self.world.balance(ALICE)

    def check(self) -> None:
        self.world.check()
        assert coins_of(self.world.engine) == -self.world.store.ledger.balance(CHAIN)


async def test_money_goes_in_and_out_on_a_real_node(wallet: Wallet, node: PaymentNode, tmp_path: Path) -> None:
    engine = connect(f"sqlite:///{tmp_path}/relay.db")
    world = World(engine)
    world.register(*AGENTS)
    teller = Teller(world, wallet, node)
    assert await teller.deposit() == "waiting"
    assert [await teller.after(DEPTH - 1), await teller.after(1)] == [0, AMOUNT]

    tip = wallet.node.rpc("getblockhash", wallet.node.rpc("getblockcount") - DEPTH + 1)
    wallet.node.rpc("invalidateblock", tip)
    assert await teller.after(0) == 0
    wallet.node.rpc("reconsiderblock", tip)
    assert await teller.after(0) == AMOUNT
    teller.check()

    unsigned = await teller.request(1_000_000)
    assert world.balance(ALICE) == AMOUNT - 1_000_000
    wallet.node.rpc("invalidateblock", tip)
    await teller.bank.watch()
    assert [world.balance(ALICE), world.store.cash.open_withdrawals()] == [0, []], "it is cancelled with its coin"
    wallet.node.rpc("reconsiderblock", tip)
    assert await teller.after(0) == AMOUNT
    assert not await teller.cancel(unsigned["withdrawal_id"])

    signed, destination = await teller.withdraw(4_000_000)
    await teller.bank.watch()
    assert read(signed, segwit=True).hex_id in wallet.node.rpc("getrawmempool"), "the relay sends it"
    assert await teller.after(DEPTH - 1) == AMOUNT - 4_000_000
    assert len(world.store.cash.open_withdrawals()) == 1
    await teller.after(1)
    assert world.store.cash.open_withdrawals() == []
    received = wallet.node.rpc("getreceivedbyaddress", destination)
    assert 3_990_000 < int(received * 10**8) < 4_000_000
    teller.check()

    block = wallet.node.rpc("getblockhash", wallet.node.rpc("getblockcount") - DEPTH + 1)
    wallet.node.rpc("invalidateblock", block)
    assert await teller.after(0) == AMOUNT - 4_000_000
    (reopened,) = world.store.cash.open_withdrawals()
    assert (reopened.state, world.store.ledger.balance(CHAIN)) == ("processing", -AMOUNT)
    teller.check()
    wallet.node.rpc("reconsiderblock", block)
    await teller.bank.watch()
    assert (world.store.cash.open_withdrawals(), world.store.ledger.balance(CHAIN)) == ([], 4_000_000 - AMOUNT)
    teller.check()
    again, _ = await teller.withdraw(1_000_000)
    assert wallet.node.rpc("testmempoolaccept", [again.hex()])[0]["allowed"], "it spends the change"
    engine.dispose()
