"""Chains have the number of the rules by which they were read: by older ones they have no state hash until they are
read again, and then that of a fresh reading."""

from __future__ import annotations

import json
import time
from pathlib import Path
from urllib.request import urlopen

import pytest
from sqlalchemy import delete

from indexer.errors import SourceError, SourceUnavailableError
from indexer.model import RULES
from indexer.resolution.pointer_service import pointer_listing
from indexer.state_hash import outdated, stored_state_hash, update_state_hash
from indexer.store import Store, Writer, block_writer, connect, visits
from indexer.store.schema import READ_BY, events, meta
from indexer.sync.follower import Follower
from tests.chain_records import everything
from tests.chainkit import ChainKit, agent
from tests.databases import prepare_sqlite, store, writer
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.pointer_facts import card, serves
from tests.pointer_facts import digest as pointer_digest
from tests.running import Running, a2b
from tests.snapshots import Empty, empty, exported, parsed, rewritten, story

__all__ = ["empty", "store", "writer"]


def as_before(store: Store) -> None:
    """Leave the database as a program with older rules would have: without a number, and without one registration."""
    with store.engine.begin() as connection:
        connection.execute(delete(meta).where(meta.c.key.startswith(READ_BY)))
        _, id_ = store.registrations.ids(None, 1)[0]
        connection.execute(delete(events).where(events.c.registration == id_))


async def follow(chain: MemoryChain, store: Store, writer: Writer, *, again: bool = False) -> Follower:
    follower = Follower(chain, store, writer)
    follower.again = again
    await follower.open()
    await follower.catch_up()
    return follower


def digest(store: Store, writer: Writer) -> str | None:
    hashed = update_state_hash(store, writer, "demo")
    assert hashed is not None
    return hashed.digest


async def test_a_chain_of_older_rules_has_no_state_hash_until_it_is_read_again(
    store: Store, writer: Writer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    kit = story()
    chain = MemoryChain(*kit.blocks)
    with Indexing(f"sqlite:///{tmp_path}/fresh.db", chain) as indexing:
        fresh = (await indexing.catch_up()).records()
        expected = digest(indexing.store, indexing.writer)
    await follow(chain, store, writer)
    assert (store.rules("demo"), digest(store, writer)) == (RULES, expected)
    as_before(store)
    kit.mine(kit.inscribe(agent("Later")))
    later = MemoryChain(*kit.blocks)
    caplog.clear()
    await follow(later, store, writer)
    assert store.rules("demo") == 1
    assert len(list(store.registrations.ids(None, 10))) == 3, "what is stored is served on"
    assert digest(store, writer) is None
    assert "read by rules 1" in caplog.text
    assert "`a2b index --again demo`" in caplog.text
    await follow(chain, store, writer, again=True)
    assert digest(store, writer) == expected
    assert not outdated(store, "demo")
    assert everything(store, "demo") == fresh


async def test_a_card_that_a_pointer_named_is_listed_without_another_fetch_when_its_chain_is_read_again(
    store: Store, writer: Writer
) -> None:
    kit, body = ChainKit(), card("Alpha")
    kit.mine(kit.point("agents.example", pointer_digest(body)))
    chain = MemoryChain(*kit.blocks)
    await follow(chain, store, writer)
    assert visits.record_fetch(writer, "agents.example", serves(int(time.time() * 1000) + 1, body)) == 1
    listed = pointer_listing(store, "agents.example")
    await follow(chain, store, writer, again=True)
    after = pointer_listing(store, "agents.example")
    assert listed is not None
    assert after is not None
    assert (after.resolution, after.body) == (listed.resolution, listed.body)
    assert after.resolution is not None


async def test_nothing_is_forgotten_while_the_source_does_not_deliver_the_first_block(
    store: Store, writer: Writer
) -> None:
    chain = MemoryChain(*story().blocks)
    await follow(chain, store, writer)
    newest = store.blocks.newest("demo")
    chain.down = "pruned"
    with pytest.raises(SourceUnavailableError, match="pruned"):
        await follow(chain, store, writer, again=True)
    chain.down, chain.has_history = "", False
    with pytest.raises(SourceError, match="nothing can be read again"):
        await follow(chain, store, writer, again=True)
    assert store.blocks.newest("demo") == newest


async def test_a_source_without_history_is_never_outdated(store: Store, writer: Writer) -> None:
    chain = MemoryChain(*story().blocks)
    await follow(chain, store, writer)
    as_before(store)
    chain.has_history = False
    await follow(chain, store, writer)
    assert not outdated(store, "demo")


async def test_a_reorganisation_of_the_whole_chain_is_read_by_the_rules_of_this_program(
    store: Store, writer: Writer
) -> None:
    kit = story()
    await follow(MemoryChain(*kit.blocks), store, writer)
    as_before(store)
    block_writer.forget(writer, "demo", -1)
    assert not outdated(store, "demo")
    await follow(MemoryChain(*kit.blocks), store, writer)
    assert store.rules("demo") == RULES


async def test_a_snapshot_carries_the_number_of_its_rules(empty: Empty, tmp_path: Path) -> None:
    prepare_sqlite(f"sqlite:///{tmp_path}/source.db")
    with Indexing(f"sqlite:///{tmp_path}/source.db", MemoryChain(*story().blocks)) as indexing:
        await indexing.catch_up()
        assert parsed(exported(indexing.store))[0]["chains"][0]["rules"] == RULES
        as_before(indexing.store)
        old = exported(indexing.store)
    assert "rules" not in parsed(old)[0]["chains"][0]
    assert "stateHash" not in parsed(old)[0]["chains"][0]
    why = empty.refuses(old.splitlines(keepends=True))
    assert "demo was read by rules 1 of the registry, and this program has rules 2: export it again" in why
    newer = parsed(old)
    newer[0]["chains"][0]["rules"] = RULES + 1
    assert "with a newer version" in empty.refuses(rewritten(newer), trust=True)
    empty.take(old.splitlines(keepends=True), trust=True)
    assert empty.store.rules("demo") == 1
    hashed = stored_state_hash(empty.store, "demo")
    assert hashed is not None
    assert hashed.digest is None


def test_the_command_reads_a_chain_again_and_status_and_page_say_so_before(tmp_path: Path) -> None:
    kit = story()
    (tmp_path / "blocks").mkdir()
    kit.write(tmp_path / "blocks")
    chains = f"demo=files:{tmp_path / 'blocks'}"
    local = {"A2B_CHAINS": chains, "A2B_LOG": "text", "A2B_PORT": "0"}

    def hashed() -> str | None:
        stored = json.loads(a2b("status", "--json", cwd=tmp_path).stdout)["stateHash"]
        digest: str | None = stored.get("demo", {"hash": None})["hash"]  # no block is stored when it is read again
        return digest

    with Running("up", cwd=tmp_path, **local) as up:
        up.until_ready()
        expected = up.until(lambda: up.get("/v1/status")["stateHash"].get("demo"))["hash"]
        up.stop()
    engine = connect(f"sqlite:///{tmp_path}/a2b-data/a2b.db")
    as_before(Store(engine))
    engine.dispose()
    assert hashed() is None
    with Running("up", cwd=tmp_path, **local) as up:
        up.until_ready()
        assert "`a2b index --again demo`" in up.get("/v1/status")["chains"][0]["note"]
        with urlopen(f"{up.url}/status") as page:  # noqa: S310 - http only
            assert b"a2b index --again demo" in page.read()
        up.stop()
        assert "`a2b index --again demo`" in up.err
    wrong = a2b("index", "--again", "other", cwd=tmp_path, **local)
    assert (wrong.returncode, "the chains that are followed are demo" in wrong.stderr) == (2, True)
    assert hashed() is None
    with Running("index", "--again", "demo", cwd=tmp_path, **local) as index:
        index.until(lambda: hashed() == expected)
        index.stop()
