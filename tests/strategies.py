"""Hypothesis strategies: small random histories of a chain with forks, for the law that a reorg is a fresh replay."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from hypothesis import strategies as st

from parsers.bitcoin.tx import Outpoint, Transaction
from tests.chainkit import FEE, FUNDS, ChainKit, agent, tool
from tests.chainkit_blocks import Block
from tests.chainkit_scripts import body_of, inscription, map_tape, p2pkh, pointer_script, push

PNG = b"\x89PNG\r\n\x1a\n not really"
AGENT = {"app": "test", "type": "a2b-agent"}
TOOL = {"app": "test", "type": "a2b-mcp"}
LARGEST_COIN = 500
OWNERS = ("alice", "bob", "carol")


def _agent(number: int) -> bytes:
    return body_of(agent(f"Agent {number}"))


def _tool(number: int) -> bytes:
    return body_of(tool(f"tool-{number}"))


Writer = Callable[[int, str], bytes]

# What an output may say: a name for the story, and the script for a number and an owner. Simple ones stand first,
# because Hypothesis shrinks towards the front.
CONTENTS: dict[str, Writer] = {
    "plain": lambda _, owner: p2pkh(owner),
    "agent": lambda n, owner: inscription(_agent(n), AGENT, owner),
    "tool": lambda n, owner: inscription(_tool(n), TOOL, owner, order="envelope-first"),
    "agent without MAP": lambda n, owner: inscription(_agent(n), {}, owner),
    "tool without MAP": lambda n, owner: inscription(_tool(n), {}, owner),
    "MAP only": lambda n, owner: p2pkh(owner) + map_tape({"app": f"app-{n}", "type": "a2b-agent"}),
    "MAP app only": lambda n, owner: p2pkh(owner) + map_tape({"app": f"app-{n}"}),
    "MAP of a tool": lambda n, owner: p2pkh(owner) + map_tape({"app": f"app-{n}", "type": "a2b-mcp"}),
    "a2b": lambda n, owner: inscription(_agent(n), {"app": "test", "type": "a2b"}, owner, separator=True),
    "agent of bsv-mcp": lambda n, owner: inscription(_agent(n), {"app": "bsv-mcp", "type": "agent"}, owner),
    "agent of another app": lambda n, owner: inscription(_agent(n), {"app": "other", "type": "agent"}, owner),
    "MAP in envelope": lambda n, owner: inscription(_agent(n), AGENT, owner, map_in="envelope"),
    "MAP after a tape": lambda n, owner: inscription(_agent(n), AGENT, owner, before=push(f"note {n}")),
    "charset": lambda n, owner: inscription(_agent(n), AGENT, owner, content_type="Application/JSON; charset=utf-8"),
    "compressed": lambda n, owner: inscription(_agent(n), AGENT, owner, tag=b"\x59\x02br\x51"),
    "minus one": lambda n, owner: inscription(_agent(n), AGENT, owner, tag=b"\x4f\x01x\x51"),
    "broken": lambda n, owner: inscription(_agent(n)[:-2], AGENT, owner),
    "nameless": lambda n, owner: inscription(body_of({"skills": [{"id": f"x{n}"}]}), AGENT, owner),
    "no skills": lambda n, owner: inscription(body_of({"name": f"Agent {n}"}), AGENT, owner),
    "tool body as agent": lambda n, owner: inscription(_tool(n), AGENT, owner),
    "picture": lambda _, owner: inscription(PNG, {}, owner, content_type="image/png"),
    "picture with MAP": lambda _, owner: inscription(PNG, AGENT, owner, content_type="image/png"),
    "post": lambda n, owner: inscription(_agent(n), {"app": "blog", "type": "post"}, owner),
    "unknown a2b type": lambda n, owner: inscription(_agent(n), {"app": "test", "type": "a2b-other"}, owner),
    "MAP GET": lambda n, owner: inscription(_agent(n), AGENT, owner, command="GET"),
    "unclosed": lambda n, owner: inscription(_agent(n), AGENT, owner, close=False),
    "cut short": lambda n, owner: inscription(_agent(n), {}, owner, cut=3),
    "tail cut short": lambda n, owner: inscription(_agent(n), AGENT, owner, tail=b"\x20cut"),
    "pointer": lambda n, _: pointer_script(f"agent{n}.example", bytes([n]) * 32),
}
_NAMES = [*CONTENTS, *["plain"] * 4, *["agent"] * 8, *["tool"] * 3, *["agent without MAP"] * 2]


class PlannedOutput(NamedTuple):
    """A planned output: satoshis and what it says."""

    satoshis: int
    content: str
    number: int


class Spend(NamedTuple):
    """A planned transaction. Inputs: 0 is a fresh coin of 1,000,000 satoshis, k the k-th newest unspent output of
    interest; `change` returns what is left, else it is the fee."""

    inputs: tuple[int, ...]
    outputs: tuple[PlannedOutput, ...]
    change: bool

    def __str__(self) -> str:
        taken = ", ".join(f"coin {pick}" if pick else "fund" for pick in self.inputs)
        created = ", ".join(f"{output.satoshis} {output.content} {output.number}" for output in self.outputs)
        return f"[{taken} -> {created}{', change' * self.change}]"


class Dig(NamedTuple):
    """A planned block: on the arrival so many back, with transactions, also those of other branches (`again`), in
    reverse order (`backwards`), and then `run` empty blocks on it."""

    back: int
    spends: tuple[Spend, ...]
    again: bool
    backwards: bool
    run: int


@dataclass(frozen=True)
class History:
    """A tree of blocks in the order in which they arrive, parents first. Two branches share transactions at times."""

    kit: ChainKit
    story: tuple[str, ...]

    @property
    def arrivals(self) -> tuple[Block, ...]:
        """All blocks, genesis first."""
        return tuple(self.kit.blocks)

    def active(self, arrived: int | None = None) -> list[Block]:
        """The chain of most work (of equals, the first seen), genesis first, after so many arrivals."""
        return self.kit.branch(max(self.kit.blocks[:arrived], key=lambda block: block.height))

    def steps(self) -> Iterator[list[Block]]:
        """The active chain after each arrival that changes it, from genesis on."""
        tip = None
        for arrived in range(1, len(self.kit.blocks) + 1):
            chain = self.active(arrived)
            if chain[-1] is not tip:
                tip = chain[-1]
                yield chain

    @property
    def reorgs(self) -> int:
        """How often blocks that had been active were left behind."""
        chains = list(self.steps())
        return sum(old[-1] not in new for old, new in itertools.pairwise(chains))

    def __repr__(self) -> str:
        return "\n".join(["History:", *self.story])


class Scribe:
    """Turns plans into blocks, keeping for each block what is unspent there (and whether it is of interest)."""

    def __init__(self) -> None:
        self.kit = ChainKit()
        funds = {self.kit.funds(number): False for number in range(FUNDS)}
        self.views: dict[bytes, dict[Outpoint, bool]] = {self.kit["1"].hash: funds}
        self.mined: dict[bytes, Transaction] = {}
        self.story: list[str] = []

    def dig(self, plan: Dig) -> None:
        """Mine as planned."""
        later = self.kit.blocks[1:]
        parent = later[max(0, len(later) - 1 - plan.back)]
        view = dict(self.views[parent.hash])
        txs = self._again(view, parent) if plan.again else []
        txs += [tx for tx in (self.spend(spend, view) for spend in plan.spends) if tx]
        block = self.kit.mine(*(txs[::-1] if plan.backwards else txs), parent=parent)
        self.mined.update({tx.txid: tx for tx in txs})
        self.views[block.hash] = view
        self.story.append(
            f"  {block.label} on {parent.label}: {' '.join(map(str, plan.spends))}{' and again' * plan.again}"
        )
        for _ in range(plan.run):
            block = self.kit.mine(parent=block)
            self.views[block.hash] = view
            self.story.append(f"  {block.label}: empty")

    def _again(self, view: dict[Outpoint, bool], parent: Block) -> list[Transaction]:
        """Transactions of other branches that can stand on this one too, as a node mines again what it gave up."""
        here = {txid for block in self.kit.branch(parent) for txid in block.txids}
        results = []
        for txid, tx in self.mined.items():
            if txid not in here and all(spent.prevout in view for spent in tx.inputs):
                self.book(tx, view)
                results.append(tx)
        return results

    def spend(self, plan: Spend, view: dict[Outpoint, bool]) -> Transaction | None:
        """Make a transaction as planned from what is unspent, if it can be."""
        inputs = self._pick(plan.inputs, view)
        left = sum(self.kit.satoshis(outpoint) for outpoint in inputs)
        outputs = []
        for output in plan.outputs:
            if output.satoshis <= left:
                left -= output.satoshis
                outputs.append((output.satoshis, CONTENTS[output.content](output.number, OWNERS[output.number % 3])))
        if plan.change and left > FEE:
            outputs.append((left - FEE, p2pkh("change")))
        if not inputs or not outputs:
            return None
        tx = self.kit.spend(inputs, outputs)
        self.book(tx, view)
        return tx

    def _pick(self, picks: tuple[int, ...], view: dict[Outpoint, bool]) -> list[Outpoint]:
        coins = [outpoint for outpoint, interest in view.items() if interest]
        funds = iter([outpoint for outpoint, interest in view.items() if not interest])
        results: dict[Outpoint, None] = {}
        for pick in picks:
            outpoint = coins[-pick] if 0 < pick <= len(coins) else next(funds, None)
            if outpoint is not None:
                results[outpoint] = None
        return list(results)

    def book(self, tx: Transaction, view: dict[Outpoint, bool]) -> None:
        """Take what a transaction spends out of what is unspent, and what it makes into it."""
        for spent in tx.inputs:
            del view[spent.prevout]
        for vout, output in enumerate(tx.outputs):
            unspendable = output.script[:2] == b"\x00\x6a"
            if output.satoshis <= LARGEST_COIN and not unspendable:
                view[tx.outpoint(vout)] = True


def spends() -> st.SearchStrategy[Spend]:
    """Plans of a transaction."""
    created = st.builds(
        PlannedOutput, st.sampled_from([1, 1, 1, 1, 1, 0, 2, 500]), st.sampled_from(_NAMES), st.integers(0, 3)
    )
    one = st.builds(PlannedOutput, st.just(1), st.sampled_from(_NAMES), st.integers(0, 3))
    story = st.builds(
        lambda pick, output: Spend((pick, 0) if pick else (0,), (output,), change=True), st.integers(0, 4), one
    )
    tangle = st.builds(
        Spend,
        st.lists(st.integers(0, 4), min_size=1, max_size=4).map(tuple),
        st.lists(created, min_size=1, max_size=4).map(tuple),
        st.booleans(),
    )
    return st.one_of(story, story, tangle)


def digs(any_order: bool, most: int) -> st.SearchStrategy[Dig]:
    """Plans of a block, of at most so many transactions; with `any_order`, a child may stand before its parent."""
    return st.builds(
        Dig,
        st.sampled_from([0, 0, 0, 0, 1, 1, 2, 3, 4]),
        st.lists(spends(), max_size=most).map(tuple),
        st.sampled_from([False, False, True]),
        st.booleans() if any_order else st.just(False),
        st.sampled_from([0, 0, 0, 1, 2]),
    )


def _write(plans: list[Dig]) -> History:
    writer = Scribe()
    for plan in plans:
        writer.dig(plan)
    return History(writer.kit, tuple(writer.story))


def histories(max_blocks: int = 8, max_txs: int = 4, *, any_order: bool = False) -> st.SearchStrategy[History]:
    """Small random histories: registrations, updates, moves, MAP-only changes, burns, near misses, foreign content and
    chains of all these within a block and across forks. `any_order` also puts children before their parents."""
    return st.lists(digs(any_order, max_txs), min_size=1, max_size=max_blocks).map(_write)
