"""Batches of envelopes that are not mined yet (law 3a)."""

from __future__ import annotations

from tests.chainkit import ChainKit, agent
from tests.chainkit_scripts import batch, body_of, p2pkh, tapscript
from tests.fakes import MemoryChain
from tests.indexing import Indexing

AGENT = {"app": "test", "type": "a2b-agent"}


def stack(*names: str) -> tuple[bytes, ...]:
    scripts = [tapscript(body_of(agent(name)), map=AGENT) for name in names]
    return (b"\x51" * 64, batch(*scripts), b"\xc0" + bytes(32))


async def test_unconfirmed_batches_are_shown_and_mined_as_they_were(database_url: str) -> None:
    kit = ChainKit("ltc")
    first = kit.spend([kit.fund()], [(10_000, p2pkh("alice"))], witnesses=[stack("One", "Two")])
    later = kit.spend([first.outpoint(0)], [(9_000, p2pkh("bob"))], witnesses=[stack("Three", "Four")])
    moved = kit.spend([later.outpoint(0)], [(8_000, p2pkh("carol"))])
    chain = MemoryChain(*kit.blocks, coin="ltc")
    ids = [str(first.outpoint(0)), f"{first.outpoint(0)}#1"]
    kinds = [["inscribed", "reinscribed", "reinscribed", "moved"], ["inscribed", "moved", "moved"]]
    with Indexing(database_url, chain) as indexing:
        for tx in (first, later, moved):
            chain.unconfirmed[tx.txid] = kit.raw(tx.outpoint(0))
        await indexing.refresh()
        records = indexing.store.history.with_pending(ids)
        assert [[past.event.kind.value for past in records[id_].pending] for id_ in ids] == kinds
        newest = [records[id_].pending[-1].event.state for id_ in ids]
        cards = indexing.store.content.cards({state.card for state in newest if state is not None})
        assert sorted(cards.values()) == sorted(body_of(agent(name)) for name in ("Four", "Two"))
        chain.unconfirmed.clear()
        kit.mine(first, later)
        kit.mine(moved)
        chain.arrive(*kit.blocks)
        await indexing.refresh()
        assert [indexing.kinds(id_) for id_ in ids] == kinds
        assert not any(record.pending for record in indexing.store.history.with_pending(ids).values())
