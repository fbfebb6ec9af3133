"""A small mint for story tests: mine, fork, inscribe, transfer, and write what a node would have written to its disk.

    kit = ChainKit()
    agent = kit.inscribe({"name": "Echo", ...}, owner="alice")      # an Outpoint
    kit.mine(agent)                                                  # block "2": 0 is genesis, 1 holds the funds
    news = kit.update(agent, {"name": "Echo 2", ...})
    kit.mine(news)                                                   # block "3"
    kit.mine(parent=kit["2"])                                        # block "3a" on a fork
    kit.write(tmp_path)                                              # blk00000.dat and tip.json

Everything is deterministic: the same calls give the same bytes. Blocks carry real proof of work at regtest difficulty,
linkage, merkle roots and (with witnesses) commitments. Nothing is signed: unlocking scripts are legible dummies.
"""

from __future__ import annotations

import json
import string
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from parsers.bitcoin.tx import Outpoint, Transaction, TxInput, TxOutput, read, sha256d
from tests.chainkit_blocks import Block, count_bytes, fork_letters, frame, merkle_root, read_count
from tests.chainkit_coins import BITS, COINS, TARGET, serialise_tx
from tests.chainkit_scripts import Json, body_of, inscription, map_tape, p2pkh, pointer_script, tapscript

FUNDS = 64
COIN = 1_000_000
FEE = 7

SAME: dict[str, str] = {"(as before)": ""}


Minable = Outpoint | Transaction | bytes
Spendable = Outpoint | tuple[Outpoint, int]


class ChainKit:
    """A mint of one regtest chain (`bsv`, `btc`, `bch`, `ltc` or `doge`), with `funds` coins of 0.01 in block 1."""

    def __init__(self, chain: str = "bsv", funds: int = FUNDS) -> None:
        self.coin = COINS[chain]
        self.chain = chain
        self.blocks: list[Block] = []
        self._raws: dict[bytes, bytes] = {}
        self._txs: dict[bytes, Transaction] = {}
        self._values: dict[Outpoint, int] = {}
        self._owners: dict[Outpoint, str] = {}
        self._fields: dict[Outpoint, dict[str, str]] = {}
        self._index: dict[bytes, Block] = {}
        self._letters = iter(fork_letters())
        self._spent_funds = 0
        self._arrive(self.coin.genesis, "0", 0)
        self._funding = self._funds(funds)

    def forget(self, block: Block, spendable: Collection[Outpoint]) -> None:
        """Free the memory of the newest block, of whose outputs only these are spent later: it stays as a header."""
        self.blocks[-1] = self._index[block.hash] = replace(block, raw=block.header, txids=())
        for txid in block.txids:
            del self._raws[txid]
            for outpoint in map(self._txs[txid].outpoint, range(len(self._txs.pop(txid).outputs))):
                if outpoint not in spendable:
                    for remembered in (self._values, self._owners, self._fields):
                        remembered.pop(outpoint, None)

    # -- looking ------------------------------------------------------------------------------------------------

    def __getitem__(self, label: str) -> Block:
        """The block of that label. Raises KeyError naming it."""
        for block in self.blocks:
            if block.label == label:
                return block
        raise KeyError(f"no block {label!r} among {', '.join(b.label for b in self.blocks)}")

    @property
    def tip(self) -> Block:
        """The block of most work, the first seen of equals (all regtest blocks are of equal work)."""
        return max(self.blocks, key=lambda block: block.height)

    def branch(self, block: Block | None = None) -> list[Block]:
        """The blocks from genesis to `block` (default: the tip), in order of height."""
        results = [block or self.tip]
        while results[-1].height:
            results.append(self._index[results[-1].prev])
        return results[::-1]

    def tx(self, what: Minable) -> Transaction:
        """The transaction of an outpoint, or of its raw bytes."""
        return self._txs[self._txid(what)]

    def raw(self, what: Minable) -> bytes:
        """The transaction as serialised, with its witness if it has one."""
        return self._raws[self._txid(what)]

    def satoshis(self, outpoint: Outpoint) -> int:
        """The satoshis of an output made here."""
        return self._values[outpoint]

    def address(self, owner: str) -> str:
        """The base58 P2PKH address of a named owner on this chain's regtest."""
        return self.coin.address(p2pkh(owner)[3:23])

    # -- mining -------------------------------------------------------------------------------------------------

    def mine(self, *what: Minable, parent: Block | None = None, spends_fees: bool = True) -> Block:
        """Mine these transactions, in this order, on `parent` (default: the newest block)."""
        parent = parent or self.blocks[-1]
        label = self._label(parent)
        txids = list(dict.fromkeys(self._txid(item) for item in what))
        fees = sum(self._fee(txid) for txid in txids) if spends_fees else 0
        outputs = [(self.coin.subsidy + fees, p2pkh("miner"))]
        return self._mine(parent, label, outputs, txids)

    def mine_empty(self, count: int, parent: Block | None = None) -> Block:
        """Mine `count` blocks without transactions, one on the other; the last one is returned."""
        block = parent or self.blocks[-1]
        for _ in range(count):
            block = self.mine(parent=block)
        return block

    def _mine(self, parent: Block, label: str, outputs: Sequence[tuple[int, bytes]], txids: Sequence[bytes]) -> Block:
        height = parent.height + 1
        witness = any(tx.witness for txid in txids for tx in self._txs[txid].inputs)
        coinbase = self.coin.coinbase(height, label, outputs, [self._raws[t] for t in txids] if witness else None)
        all_txids = [self._know(coinbase), *txids]
        body = b"".join([count_bytes(len(all_txids)), *(self._raws[txid] for txid in all_txids)])
        start = b"".join(
            [
                (0x20000000).to_bytes(4, "little"),
                parent.hash,
                merkle_root(all_txids),
                (parent.time + 600).to_bytes(4, "little"),
                BITS.to_bytes(4, "little"),
            ]
        )
        return self._arrive(self._work(start) + body, label, height)

    def _work(self, start: bytes) -> bytes:
        """The header whose hash meets the regtest target: two tries on average."""
        for nonce in range(1 << 32):
            header = start + nonce.to_bytes(4, "little")
            if int.from_bytes(self.coin.pow(header), "little") <= TARGET:
                return header
        raise AssertionError("2**32 nonces do not meet the regtest target")

    def _arrive(self, raw: bytes, label: str, height: int) -> Block:
        seen = tuple(self._txids_of(raw))
        block = Block(label, height, sha256d(raw[:80]), raw[4:36], int.from_bytes(raw[68:72], "little"), raw, seen)
        self.blocks.append(block)
        self._index[block.hash] = block
        return block

    def _txids_of(self, raw: bytes) -> Iterable[bytes]:
        count, position = read_count(raw, 80)
        for _ in range(count):
            tx = read(raw, position, segwit=self.coin.segwit)
            self._know(raw[position : position + tx.size])
            position += tx.size
            yield tx.txid

    def _label(self, parent: Block) -> str:
        fork = parent.label.lstrip(string.digits)
        if any(block.prev == parent.hash for block in self.blocks):
            fork = next(self._letters)
        return f"{parent.height + 1}{fork}"

    # -- transactions -------------------------------------------------------------------------------------------

    def spend(self, inputs: Sequence[Spendable], outputs: Sequence[tuple[int, bytes]], **more: Any) -> Transaction:
        """Any transaction: `inputs` are outpoints (with satoshis where not made here), `outputs` (satoshis, script).

        `witnesses` gives each input's stack (segwit chains), `locktime` makes equal transactions differ.
        """
        spent = [item if isinstance(item[0], Outpoint) else (item, None) for item in inputs]
        for outpoint, satoshis in spent:
            if satoshis is not None:
                self._values[outpoint] = satoshis
        stacks = more.get("witnesses") or [()] * len(spent)
        created = tuple(TxOutput(*output) for output in outputs)
        ins = tuple(
            TxInput(outpoint, b"" if stack else b"\x07unlocks", 0xFFFFFFFF, tuple(stack))
            for (outpoint, _), stack in zip(spent, stacks, strict=True)
        )
        return self._txs[self._know(serialise_tx(ins, created, locktime=more.get("locktime", 0)))]

    def fund(self) -> Outpoint:
        """A coin of 0.01 that nothing else here spends. Raises ValueError when none is left."""
        if self._spent_funds == len(self._funding):
            raise ValueError(f"all {len(self._funding)} funds are spent: make the kit with ChainKit(funds=...)")
        self._spent_funds += 1
        return self._funding[self._spent_funds - 1]

    def funds(self, number: int) -> Outpoint:
        """Coin number `number` of block 1, whether spent or not: for tests that keep their own books."""
        return self._funding[number]

    def pay(self, owner: str = "bob", satoshis: int = 5000, source: Spendable | None = None) -> Outpoint:
        """An ordinary payment to `owner`, with change."""
        return self._make([source or self.fund()], [(satoshis, p2pkh(owner))], owner)

    def inscribe(
        self,
        card: Json | bytes,
        type: str | None = "a2b-agent",  # noqa: A002 - the MAP key has this name
        app: str = "test",
        *,
        map: dict[str, str] | None = None,  # noqa: A002 - the protocol has this name
        satoshis: int = 1,
        owner: str = "alice",
        source: Spendable | None = None,
        **form: Any,
    ) -> Outpoint:
        """A first inscription in output 0, with change in output 1 (`type=None`: without MAP).

        `map` adds keys; `form` is that of `chainkit_scripts.inscription` (order, content_type, map_in, command, ...).
        """
        fields = {**({"app": app, "type": type} if type else {}), **(map or {})}
        script = inscription(body_of(card), fields, owner, **form)
        outpoint = self._make([source or self.fund()], [(satoshis, script)], owner)
        self._fields[outpoint] = fields
        return outpoint

    def update(
        self,
        outpoint: Outpoint,
        card: Json | bytes,
        *,
        map: dict[str, str] | None = SAME,  # noqa: A002
        owner: str | None = None,
        satoshis: int = 1,
        **form: Any,
    ) -> Outpoint:
        """Re-inscribe the satoshi of `outpoint`, with identical MAP by default (`map=None`: without MAP)."""
        owner = owner or self._owners[outpoint]
        fields = self._fields.get(outpoint, {}) if map is SAME else map or {}
        script = inscription(body_of(card), fields, owner, **form)
        created = self._make([outpoint, self.fund()], [(satoshis, script)], owner)
        self._fields[created] = {**self._fields.get(outpoint, {}), **fields}
        return created

    def move(self, outpoint: Outpoint, owner: str = "bob") -> Outpoint:
        """Transfer the satoshi, with neither envelope nor MAP."""
        created = self._make([outpoint, self.fund()], [(1, p2pkh(owner))], owner)
        self._fields[created] = self._fields.get(outpoint, {})
        return created

    def map_only(self, outpoint: Outpoint, map: dict[str, str], owner: str | None = None) -> Outpoint:  # noqa: A002
        """Transfer the satoshi with a MAP tape and no envelope."""
        owner = owner or self._owners[outpoint]
        created = self._make([outpoint, self.fund()], [(1, p2pkh(owner) + map_tape(map))], owner)
        self._fields[created] = {**self._fields.get(outpoint, {}), **map}
        return created

    def burn(self, outpoint: Outpoint, to: str = "change") -> Outpoint:
        """Lose the satoshi: `to="change"` merges it into a larger output, `to="fee"` leaves it to the miner."""
        fund = self.fund()
        if to == "change":
            return self.spend([outpoint, fund], [(COIN - FEE, p2pkh("alice"))]).outpoint(0)
        if to == "fee":
            return self.spend([fund, outpoint], [(COIN, p2pkh("alice"))]).outpoint(0)
        raise ValueError(f"{to!r} is no way to burn a satoshi: expected 'change' or 'fee'")

    def displace(self, outpoint: Outpoint, card: Json | bytes, **form: Any) -> Outpoint:
        """Make a transaction that resembles an update: a coin stands before the satoshi, which ends in the change."""
        owner = self._owners[outpoint]
        script = inscription(body_of(card), self._fields[outpoint], owner, **form)
        return self._make([self.fund(), outpoint, self.fund()], [(1, script)], owner)

    def point(self, domain: str, digest: bytes | str | None = None, **form: Any) -> Outpoint:
        """A pointer `a2b <domain> [<digest>]` in output 0; `form` is that of `chainkit_scripts.pointer_script`."""
        return self._make([self.fund()], [(0, pointer_script(domain, digest, **form))], "")

    def reveal(
        self,
        card: Json | bytes,
        type: str | None = "a2b-agent",  # noqa: A002
        app: str = "test",
        *,
        owner: str = "alice",
        satoshis: int = 10_000,
        map_in: str = "tape",
        source: Spendable | None = None,
        **form: Any,
    ) -> Outpoint:
        """A taproot inscription (law 3a): the envelope in input 0's tapscript, MAP in an OP_RETURN output or field.

        `form` is that of `chainkit_scripts.tapscript` (chunk, content_type, fields).
        """
        fields = {"app": app, "type": type} if type else {}
        script = tapscript(body_of(card), map=fields if map_in == "envelope" else {}, **form)
        stack = (b"\x51" * 64, script, b"\xc0" + b"\x52" * 32)
        outputs = [(satoshis, p2pkh(owner))]
        if fields and map_in == "tape":
            outputs.append((0, map_tape(fields)))
        outpoint = self._make([source or self.fund()], outputs, owner, witnesses=[stack])
        self._fields[outpoint] = fields
        return outpoint

    def _make(self, inputs: list[Spendable], outputs: list[tuple[int, bytes]], owner: str, **more: Any) -> Outpoint:
        """A transaction with the change of its inputs, less a fee, in a last output."""
        held = sum(item[1] if isinstance(item[0], Outpoint) else self._values[item] for item in inputs)
        change = held - sum(satoshis for satoshis, _ in outputs) - FEE
        if change > 0:
            outputs = [*outputs, (change, p2pkh("change"))]
        outpoint = self.spend(inputs, outputs, **more).outpoint(0)
        self._owners[outpoint] = owner
        return outpoint

    def _funds(self, count: int) -> list[Outpoint]:
        outputs = [(COIN, p2pkh("fund"))] * count
        block = self._mine(self.blocks[0], "1", outputs, [])
        return [Outpoint(block.txids[0], number) for number in range(count)]

    def _know(self, raw: bytes) -> bytes:
        tx = read(raw, segwit=self.coin.segwit)
        if tx.txid not in self._txs:
            self._raws[tx.txid], self._txs[tx.txid] = raw, tx
            self._values.update({tx.outpoint(n): output.satoshis for n, output in enumerate(tx.outputs)})
        return tx.txid

    def _txid(self, what: Minable) -> bytes:
        if isinstance(what, bytes):
            return self._know(what)
        return what.txid

    def _fee(self, txid: bytes) -> int:
        tx = self._txs[txid]
        held = [self._values.get(spent.prevout) for spent in tx.inputs]
        created = sum(output.satoshis for output in tx.outputs)
        return sum(value or 0 for value in held) - created if None not in held else 0

    # -- files --------------------------------------------------------------------------------------------------

    def write(
        self, folder: Path, blocks: Iterable[Block] | None = None, *, per_file: int | None = None, zeros: int = 0
    ) -> list[Path]:
        """Write `blocks` (default: all, in order of arrival) as a node does, and tip.json beside them.

        `per_file` starts a new file after so many blocks; `zeros` are appended to each file, as nodes preallocate.
        """
        blocks = list(self.blocks if blocks is None else blocks)
        size = per_file or max(1, len(blocks))
        paths = []
        for number in range(0, len(blocks), size):
            path = folder / f"blk{number // size:05}.dat"
            path.write_bytes(b"".join(frame(block.raw) for block in blocks[number : number + size]) + bytes(zeros))
            paths.append(path)
        self.write_tip(folder)
        return paths

    def append(self, path: Path, *blocks: Block) -> None:
        """Append blocks to a file, after whatever it holds."""
        with path.open("ab") as file:
            file.writelines(frame(block.raw) for block in blocks)

    def write_tip(self, folder: Path, tip: Block | None = None) -> Path:
        """The `tip.json` that says which chain a folder holds."""
        tip = tip or self.tip
        path = folder / "tip.json"
        answers = {
            "chain": f"{self.chain}-regtest",
            "height": tip.height,
            "hash": tip.hex,
            "genesis": self.blocks[0].hex,
        }
        path.write_text(json.dumps(answers))
        return path


def agent(name: str = "Echo", **more: Any) -> dict[str, Any]:
    """A small agent card that meets the hard rules."""
    return {"name": name, "url": "https://echo.example", "skills": [{"id": "echo", "name": "Echo"}], **more}


def agent_without_host(name: str) -> dict[str, Any]:
    """An agent card whose url names an address: no domain is checked, and no change tells of a failed check."""
    return agent(name, url="https://192.0.2.1")


def tool(name: str = "clock", **more: Any) -> dict[str, Any]:
    """A small MCP config of one server."""
    return {"mcpServers": {name: {"command": "bunx", "args": [name], **more}}}
