"""Blocks with their events, cards and proofs: appended, rolled back and trimmed, each in one transaction that appends
to the outbox what changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import Connection, delete, insert, select

from indexer.model import RULES, BlockFacts, Event, EventKind
from indexer.spill import AT_ONCE, Spill, pieces
from indexer.store import outbox, pending, proofs, schema, second_readings, sightings, topic_anchors
from indexer.store.event_codec import event_row
from indexer.store.map_changes import MapWriter
from indexer.store.queries import insert_new, insert_rows
from indexer.store.schema import READ_BY, blocks, cards, events, meta
from indexer.store.writer import Writer

NEAR_MISSES = 1_000_000
"""Near misses stored of a chain, the oldest dropped first (law 7)."""

TRIM_EVERY = 10_000
"""Near misses written between two trims."""


def append(
    writer: Writer, chain: str, block_facts: Sequence[BlockFacts], *, sparse: bool = False, rules: int = RULES
) -> None:
    """Append blocks to a chain, with all that they hold; all or nothing. They were read by `rules`.

    With `sparse`, heights may be left out, and `prev` is the hash of the block stored before. Raises ValueError
    when they do not continue the stored chain.
    """
    if not block_facts:
        return
    with writer.transaction() as connection:
        now_ms = int(writer.clock() * 1000)
        if _check_linked(connection, chain, block_facts, sparse=sparse):
            set_rules(connection, chain, rules)
        insert_rows(connection, blocks, [block_row(facts) for facts in block_facts])
        logs = [
            {"chain": chain, "height": facts.ref.height, **facts.logs._asdict()} for facts in block_facts if facts.logs
        ]
        insert_rows(connection, schema.block_logs, logs)
        raws = [{"txid": txid, "raw": raw} for facts in block_facts for txid, raw in facts.parents.items()]
        insert_new(connection, schema.parents, raws)
        for portion in _portions(block_facts):
            _insert_contents(connection, chain, portion, now_ms)
        coinbases = [
            {"chain": chain, "height": facts.ref.height, **facts.coinbase._asdict()}
            for facts in block_facts
            if facts.coinbase is not None
        ]
        insert_rows(connection, schema.coinbases, coinbases)
        topic_anchors.extend(connection, chain)
        outbox.append(connection, pending.remove_mined(connection, chain, block_facts))
    writer.untrimmed[chain] += sum(
        1 for facts in block_facts for event in facts.events if event.kind is EventKind.REJECTED
    )
    if writer.untrimmed[chain] >= TRIM_EVERY:
        writer.untrimmed[chain] = 0
        trim(writer, chain, NEAR_MISSES)


def forget(writer: Writer, chain: str, above: int) -> int:
    """Delete the blocks of a chain above a height with all that hangs from them; return how many blocks."""
    with writer.transaction() as connection:
        gone = (events.c.chain == chain, events.c.height > above, events.c.registration.is_not(None))
        registrations = connection.execute(select(events.c.registration).where(*gone).distinct()).scalars().all()
        pointers, named = sightings.before_rollback(connection, chain, above)
        count = connection.execute(delete(blocks).where(blocks.c.chain == chain, blocks.c.height > above)).rowcount
        second_readings.roll_back(connection, chain, above)
        pending.remove_registrations(connection, chain, registrations)
        sightings.stop_unnamed(connection, named)
        reverted = {"chain": chain, "op": "revert", "height": above, "reason": "reorg"}
        outbox.append(connection, [{**reverted, "id": id_} for id_ in sorted(pointers.union(registrations))])
        return count


def trim(writer: Writer, chain: str, keep: int) -> None:
    """Delete the near misses of a chain but the newest `keep`, and the proofs of transactions without other events."""
    with writer.transaction() as connection:
        near_miss = (
            events.c.chain == chain,
            events.c.kind == EventKind.REJECTED.value,
            events.c.registration.is_(None),
        )
        newest_first = select(events.c.place).where(*near_miss).order_by(events.c.place.desc())
        last = connection.execute(newest_first.offset(keep).limit(1)).scalar()
        while last is not None:
            # as many at a time as may be in memory: one block may bring millions
            oldest = select(events.c.place).where(*near_miss, events.c.place <= last).order_by(events.c.place)
            event_places = connection.execute(oldest.limit(AT_ONCE)).scalars().all()
            if not event_places:
                break
            trimmed = delete(events).where(*near_miss, events.c.place <= event_places[-1]).returning(events.c.txid)
            proofs.delete_unused(connection, chain, set(connection.execute(trimmed).scalars()))


def set_rules(connection: Connection, chain: str, rules: int) -> None:
    """Store the number of the rules by which a chain is read."""
    key = f"{READ_BY}{chain}"
    connection.execute(delete(meta).where(meta.c.key == key))
    connection.execute(insert(meta).values(key=key, value=str(rules)))


def _insert_contents(connection: Connection, chain: str, block_facts: Sequence[BlockFacts], now_ms: int) -> None:
    replaced = sightings.record(connection, chain, block_facts, now_ms)
    bodies = {digest: body for facts in block_facts for digest, body in facts.cards.items()}
    insert_new(connection, cards, [{"sha256": digest, "body": body} for digest, body in bodies.items()])
    maps, rows = MapWriter(connection, chain), []
    for facts in block_facts:
        for event in facts.events:
            rows.append(row := event_row(facts.ref, event))
            if event.state is not None:
                maps.shorten(row, event.state.map)
    insert_rows(connection, events, rows)
    insert_rows(connection, schema.proofs, [row for facts in block_facts for row in proofs.proof_rows(facts)])
    witness_paths = [
        {"chain": chain, "height": facts.ref.height, "txid": txid, "bump": proof.witness}
        for facts in block_facts
        for txid, proof in facts.proofs.items()
        if proof.witness is not None
    ]
    insert_rows(connection, schema.witness_paths, witness_paths)
    outbox.append(connection, [*(change for facts in block_facts for change in block_changes(facts)), *replaced])


def block_row(facts: BlockFacts) -> dict[str, Any]:
    ref = facts.ref
    return {
        "chain": ref.chain, "height": ref.height, "hash": ref.hash,
        "prev": ref.prev, "time": ref.time, "header": ref.header, "source": facts.source,
    }  # fmt: skip


def _check_linked(connection: Connection, chain: str, block_facts: Sequence[BlockFacts], *, sparse: bool) -> bool:
    """Whether the blocks are the first ones of a chain. Raises ValueError when they do not continue it."""
    of_chain = select(blocks.c.height, blocks.c.hash).where(blocks.c.chain == chain)
    row = connection.execute(of_chain.order_by(blocks.c.height.desc()).limit(1)).first()
    newest: tuple[int, bytes] | None = (row[0], row[1]) if row else None
    for facts in block_facts:
        ref = facts.ref
        is_next = newest is None or (
            ref.prev == newest[1] and (ref.height > newest[0] if sparse else ref.height == newest[0] + 1)
        )
        if ref.chain != chain or not is_next:
            raise ValueError(f"block {ref.height:,} of {ref.chain} does not continue the stored chain {chain}")
        newest = (ref.height, ref.hash)
    return row is None


def _portions(block_facts: Sequence[BlockFacts]) -> Iterator[Sequence[BlockFacts]]:
    """The contents of these blocks, in order: in one portion while all of them are in memory, else in portions as large
    as may be."""
    if not any(isinstance(part, Spill) for of in block_facts for part in (of.events, of.cards, of.proofs)):
        yield block_facts
        return
    for facts in block_facts:
        for bodies in pieces(facts.cards.items(), lambda pair: len(pair[1])):
            yield [BlockFacts(facts.ref, (), dict(bodies))]
        for some_events in pieces(facts.events):
            yield [BlockFacts(facts.ref, tuple(some_events), {})]
        for some_proofs in pieces(facts.proofs.items(), lambda pair: len(pair[1].raw) + len(pair[1].bump)):
            yield [BlockFacts(facts.ref, (), {}, dict(some_proofs))]


def block_changes(facts: BlockFacts) -> list[dict[str, Any]]:
    """One outbox row per registration or pointer of a block, its last event being the reason. Where a large block is
    cut into portions, each portion has its own rows."""
    last: dict[str, Event] = {}
    for event in facts.events:
        id_ = event.state.id if event.state is not None else event.pointer.id if event.pointer is not None else None
        if id_:
            last[id_] = event
    return [
        {
            "chain": facts.ref.chain, "id": id_, "height": facts.ref.height, "reason": event.kind.value,
            "op": "remove" if event.kind is EventKind.BURNED else "upsert",
        }
        for id_, event in last.items()
    ]  # fmt: skip
