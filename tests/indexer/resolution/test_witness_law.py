"""Law 3a, whatever is revealed: batches, pointers, unknown tags, broken envelopes and satoshis that share outputs, over
transactions of any shape; a slow reader of ordinals finds the same, and an import of the snapshot proves it."""

from __future__ import annotations

import asyncio
import os
import tempfile
from pathlib import Path
from typing import NamedTuple

from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from parsers.bitcoin.tx import Outpoint, Transaction
from tests.chainkit import ChainKit, agent, tool
from tests.chainkit_scripts import TAP_KEY, batch, body_of, map_tape, p2pkh, push, tapscript
from tests.fakes import MemoryChain
from tests.indexer.conftest import compare
from tests.indexing import empty, fresh
from tests.snapshots import Empty, exported

__all__ = ["empty"]

EXAMPLES = 1_000 if os.environ.get("A2B_SLOW_TESTS") == "1" else 25
OWNERS = ("alice", "bob", "carol")
AGENT, TOOL = {"app": "test", "type": "a2b-agent"}, {"app": "test", "type": "a2b-mcp"}

ENVELOPES = {
    "agent": lambda n, p: tapscript(body_of(agent(f"Agent {n}")), map=AGENT, pointer=p),
    "agent without MAP": lambda n, p: tapscript(body_of(agent(f"Agent {n}")), pointer=p, chunk=30),
    "tool": lambda n, p: tapscript(body_of(tool(f"tool {n}")), map=TOOL, pointer=p),
    "picture": lambda _, p: tapscript(b"GIF89a", "image/gif", pointer=p),
    "broken": lambda _, p: tapscript(b'{"name":', map=AGENT, pointer=p),
    "unknown tag": lambda n, p: tapscript(body_of(agent(f"Agent {n}")), map=AGENT, pointer=p, before=[(b"\4", b"x")]),
    "two pointers": lambda n, p: tapscript(body_of(agent(f"Agent {n}")), map=AGENT, pointer=p, before=[(b"\2", b"\1")]),
    "two types": lambda n, p: tapscript(body_of(agent(f"Agent {n}")), map=AGENT, pointer=p, before=[(b"\1", b"a/b")]),
    "compressed": lambda n, p: tapscript(body_of(agent(f"Agent {n}")), map=AGENT, pointer=p, before=[(b"\x09", b"br")]),
    "bodiless": lambda _, __: TAP_KEY + b"\0\x63\x03ord\x51" + push("application/json") + b"\x68",
    "opcode": lambda _, __: TAP_KEY + b"\0\x63\x03ord\x51" + push("application/json") + b"\x50\x68",
    "nested": lambda n, _: TAP_KEY + b"\0\x63" + tapscript(body_of(agent(f"Agent {n}")), map=AGENT)[len(TAP_KEY) :],
}
_NAMES = [*ENVELOPES, *["agent"] * 6, *["agent without MAP"] * 3, "tool"]


class Envelope(NamedTuple):
    """A planned envelope: what it is, its number, and where it points."""

    content: str
    number: int
    pointer: int | None

    @property
    def script(self) -> bytes:
        return ENVELOPES[self.content](self.number, self.pointer)


class Spend(NamedTuple):
    """A planned transaction: its inputs (0 a fresh coin, k the k-th newest output) with what each reveals, the values
    of its outputs, and a tape in an OP_RETURN output of so many satoshis."""

    inputs: tuple[tuple[int, tuple[Envelope, ...]], ...]
    outputs: tuple[int, ...]
    tape: tuple[int, str] | None


def spends() -> st.SearchStrategy[Spend]:
    """Plans of a transaction."""
    pointers = st.none() | st.sampled_from([0, 1, 2, 3, 5, 9, 10, 11, 15, 20, 10_000, 2**64])
    envelopes = st.builds(Envelope, st.sampled_from(_NAMES), st.integers(0, 3), pointers)
    inputs = st.tuples(st.integers(0, 4), st.lists(envelopes, max_size=3).map(tuple))
    return st.builds(
        Spend,
        st.lists(inputs, min_size=1, max_size=3).map(tuple),
        st.lists(st.sampled_from([0, 1, 2, 5, 10, 10]), min_size=1, max_size=4).map(tuple),
        st.none() | st.tuples(st.sampled_from([0, 0, 1, 5]), st.sampled_from(["a2b-agent", "a2b-mcp", "other"])),
    )


PLAIN = Envelope("agent", 0, None)
BARREN = Spend(((0, ()),), (0,), None)
"""A transaction whose output has no satoshis."""


class Scribe:
    """Turns plans into transactions."""

    def __init__(self) -> None:
        self.kit = ChainKit("ltc")
        self.coins: list[Outpoint] = []

    def spend(self, plan: Spend) -> Transaction:
        inputs, stacks = [], []
        for pick, envelopes in plan.inputs:
            coin = self.coins.pop(-pick) if 0 < pick <= len(self.coins) else self.kit.fund()
            inputs.append(coin)
            script = batch(*(envelope.script for envelope in envelopes))
            stacks.append((b"\x51" * 64, script, b"\xc0" + bytes(32)) if envelopes else ())
        left = sum(map(self.kit.satoshis, inputs))
        outputs = []
        for number, planned in enumerate(plan.outputs):
            satoshis = min(planned, left)
            left -= satoshis
            outputs.append((satoshis, p2pkh(OWNERS[number % 3])))
        if plan.tape is not None:
            satoshis, type_ = min(plan.tape[0], left), plan.tape[1]
            outputs.insert(len(outputs) // 2, (satoshis, map_tape({"app": "test", "type": type_})))
        tx = self.kit.spend(inputs, outputs, witnesses=stacks, locktime=len(self.kit.blocks))
        self.coins += [tx.outpoint(vout) for vout, (_, script) in enumerate(outputs) if script[:1] != b"\x6a"]
        return tx


@settings(
    max_examples=EXAMPLES,
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.lists(spends(), min_size=1, max_size=3), min_size=1, max_size=5), st.booleans())
@example([[BARREN, Spend(((1, (PLAIN, PLAIN)), (0, ())), (0,), None)]], False)  # a value of the same block
def test_whatever_is_revealed_is_read_as_ordinals_have_it(
    empty: Path, plans: list[list[Spend]], backwards: bool
) -> None:
    scribe = Scribe()
    for block in plans:
        txs = [scribe.spend(plan) for plan in block]
        scribe.kit.mine(*(txs[::-1] if backwards else txs))
    asyncio.run(check(empty, scribe.kit, proves=not backwards))


async def check(empty: Path, kit: ChainKit, *, proves: bool) -> None:
    with fresh(empty, MemoryChain(*kit.blocks, coin="ltc")) as indexing:
        compare(await indexing.catch_up(), kit)
        snapshot = exported(indexing.store)
    if not proves:
        return  # an import takes children before their parents on BCH only
    with tempfile.TemporaryDirectory() as folder:
        copy = Empty(f"sqlite:///{folder}/copy.db")
        try:
            report = copy.take(snapshot.splitlines(keepends=True))
            assert [chain.gap for chain in report.chains] == [""]
        finally:
            copy.close()
