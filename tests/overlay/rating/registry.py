"""A registry whose agents hand in evidence: a chain in memory, and what takes evidence in and rates."""

from __future__ import annotations

from typing import Any

from overlay.systems.rating.chain_payments import PaymentProof
from overlay.systems.rating.rating_loop import RatingLoop
from overlay.systems.rating.receipt_intake import AcceptedReceipts, ReceiptIntake
from overlay.systems.rating.receipt_json import ReceiptReader
from overlay.systems.rating.store import ReceiptQueries, StoredRating
from parsers.bitcoin import beef, bump
from parsers.bitcoin.script import p2pkh, pushes
from parsers.bitcoin.signatures import hash160, public_key
from parsers.bitcoin.tx import Outpoint, TxInput, TxOutput, read, serialise
from tests.chainkit import ChainKit, agent
from tests.chainkit_scripts import p2pkh as lock_of
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.junglebus_server import bump_of
from tests.parsers.claims.motebit.signers import Agent

PRICE = 5_000


class Payer:
    """Who pays with a key of its own."""

    def __init__(self, number: int) -> None:
        self.private = bytes([number]) * 32
        self.key = public_key(self.private)
        self.script = p2pkh(hash160(self.key))


class Registry:
    """Everything, at `now` (seconds since 1970), a little after the newest block unless it is set."""

    def __init__(self, url: str, shared: tuple[ChainKit, MemoryChain, Indexing] | None = None) -> None:
        """With a chain of its own, or with one that others follow, too."""
        kit = ChainKit(funds=200)
        chain = MemoryChain(*kit.blocks)
        self.kit, self.chain, self.indexing = shared or (kit, chain, Indexing(url, chain))
        self.later = 1_000.0
        self.intake = ReceiptIntake(self.store, lambda: self.now)
        self.reader = ReceiptReader(self.store)
        self.loop = self.rating_loop()
        self._tasks = 0

    def rating_loop(self) -> RatingLoop:
        """One of a process that has just started."""
        return RatingLoop(self.store, self.indexing.writer, lambda: None, lambda: self.now)

    @property
    def store(self) -> Any:
        return self.indexing.store

    @property
    def now(self) -> float:
        return self.kit.tip.time + self.later

    @property
    def now_ms(self) -> int:
        return int(self.now * 1_000)

    async def mine(self, *what: Any, **more: Any) -> Any:
        block = self.kit.mine(*what, **more)
        self.chain.arrive(block)
        await self.indexing.catch_up()
        return block

    async def inscribe(self, worker: Agent, owner: str = "alice", **more: Any) -> str:
        """An agent that claims a key, is paid at the address of its owner, and is bound by a token."""
        claim = {"motebit_id": worker.id, "public_key": worker.key.hex(), "did": "", "spec": "x"}
        price = {"id": "p", "currency": "BSV", "amount": "0.00005", "address": self.kit.address(f"{owner}'s till")}
        card = agent(f"of {owner}", **{"x-motebit": claim, "x-payment-config": [price], **more})
        outpoint = self.kit.inscribe(card, owner=owner)
        await self.mine(outpoint)
        return str(outpoint)

    def token(self, worker: Agent, origin: str, **more: Any) -> str:
        times = {"iat": self.now_ms, "exp": self.now_ms + 300_000}
        return worker.token(**{"aud": "custom:a2b-bind", "origin": origin, **times, **more})

    def bind(self, worker: Agent, origin: str) -> AcceptedReceipts:
        return self.intake.submit("", None, listing=origin, bind=self.token(worker, origin))

    def receipt(self, worker: Agent, task: str = "", **more: Any) -> dict[str, Any]:
        self._tasks += 1
        times = {"submitted_at": self.now_ms - 2_000, "completed_at": self.now_ms - 1_000}
        return worker.receipt(task or f"task {self._tasks}", **{**times, **more})

    def work(self, worker: Agent, by: Agent, task: str = "", **more: Any) -> dict[str, Any]:
        """A receipt of a worker, nested by who delegated the task."""
        return self.receipt(by, nested=[self.receipt(worker, task, **more)])

    async def paid(
        self,
        payer: Payer,
        owner: str = "alice",
        satoshis: int = PRICE,
        source: Outpoint | None = None,
        to: bytes = b"",
        heir: Payer | None = None,
    ) -> tuple[str, PaymentProof]:
        """The name of a task that is bound to a payment, and the payment's proof; `heir` gets the change."""
        fund = source or await self.fund(payer)
        self._tasks += 1
        spent = TxInput(fund, pushes(b"signature", payer.key), 0xFFFFFFFF)
        raw = serialise(
            (spent,),
            (TxOutput(satoshis, to or lock_of(f"{owner}'s till")), TxOutput(self._tasks, (heir or payer).script)),
        )
        block = await self.mine(raw)
        return self.proof(raw, fund, block)

    def proof(self, raw: bytes, fund: Outpoint, block: Any) -> tuple[str, PaymentProof]:
        tx = read(raw)
        path = bump.read(bump_of(block, tx.txid))
        return f"bsv:tx:{tx.hex_id}", PaymentProof(beef=beef.write([(raw, path)]), parent=self.kit.raw(fund))

    async def fund(self, payer: Payer, outputs: int = 1) -> Outpoint:
        """The first of some outputs that are locked to a payer."""
        tx = self.kit.spend([self.kit.fund()], [(20_000, payer.script)] * outputs)
        await self.mine(tx)
        return tx.outpoint(0)

    def rate(self) -> None:
        while self.loop.step():
            pass

    def rating(self, origin: str) -> StoredRating | None:
        self.rate()
        rating: StoredRating | None = ReceiptQueries(self.store.engine).ratings([origin]).get(origin)
        return rating

    def reasons(self, origin: str) -> list[tuple[str, str]]:
        """Rung and reason of every record, sorted."""
        self.rate()
        records = self.reader.receipts_json(origin)["records"]
        return sorted((record["rung"], record["reason"] or "") for record in records)
