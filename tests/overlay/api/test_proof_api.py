"""`GET /v1/listings/{id}/proof`: what it holds, and what is said when there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import ClientSession
from sqlalchemy import delete

from indexer.store import Store
from indexer.store.schema import proofs as table
from overlay.api.services import AppServices
from overlay.listings import proofs, stored_proofs
from overlay.listings.repository import ListingRepository
from overlay.listings.stored_proofs import NoProofError, proof
from parsers.bitcoin import beef, bump
from parsers.bitcoin.tx import Outpoint, sha256d
from parsers.bitcoin.tx import read as read_tx
from tests.chainkit import ChainKit, agent
from tests.chainkit_scripts import p2pkh
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.overlay.calls import get, problem, raw
from tests.overlay.conftest import Serve
from tests.overlay.fakes import CAIP2, changed


def indexed(kit: ChainKit, folder: Path, coin: str = "bsv") -> Indexing:
    indexing = Indexing(f"sqlite:///{folder}/a2b.db", MemoryChain(*kit.blocks, name="demo", coin=coin))
    asyncio.run(indexing.catch_up())
    return indexing


@pytest.fixture
def first(kit: ChainKit) -> Outpoint:
    """A registration, updated twice and moved, each in a block of its own."""
    listed = kit.inscribe(agent("First"))
    kit.mine(listed)
    second = kit.update(listed, agent("Second"))
    kit.mine(second)
    third = kit.update(second, agent("Third"))
    kit.mine(third, kit.inscribe(agent("Other")))
    kit.mine(kit.move(third))
    return listed


@pytest.fixture
def store(kit: ChainKit, first: Outpoint, tmp_path: Path) -> Iterator[Store]:
    with indexed(kit, tmp_path) as indexing:
        yield indexing.store


@pytest.fixture
async def client(serve: Serve, services: AppServices, store: Store) -> ClientSession:
    return await serve(changed(services, store=ListingRepository(store)))


async def test_a_proof_holds_what_a_client_needs_to_check_it(
    client: ClientSession, kit: ChainKit, first: Outpoint
) -> None:
    answer = await get(client, f"/v1/listings/{first}/proof")
    tx = read_tx(bytes.fromhex(answer["rawTx"]))
    header = bytes.fromhex(answer["header"])
    block = next(block for block in kit.blocks if tx.txid in block.txids)
    assert (answer["id"], answer["chain"]) == (str(first), CAIP2)
    assert answer["outpoint"] == f"{tx.hex_id}_0"
    assert answer["txid"] == tx.hex_id
    assert b"Third" in bytes.fromhex(answer["rawTx"])
    assert (answer["height"], header) == (block.height, block.raw[:80])
    assert answer["blockHash"] == sha256d(header)[::-1].hex()
    path = bump.read(bytes.fromhex(answer["bump"]))
    assert path.height == block.height
    assert path.txids() == (tx.txid,)
    assert path.root(tx.txid) == header[36:68]
    bundle = beef.read(bytes.fromhex(answer["beef"]))
    assert bundle.newest.raw == bytes.fromhex(answer["rawTx"])
    assert beef.verify(bundle, lambda height, root: (height, root) == (block.height, header[36:68])) == ()
    before = [read_tx(bytes.fromhex(item["rawTx"])).txid for item in answer["before"]]
    assert before == [first.txid, tx.inputs[0].prevout.txid]
    assert {"from", "headers"}.isdisjoint(answer)


async def test_every_transaction_of_the_satoshi_has_its_merkle_path_and_block(
    client: ClientSession, kit: ChainKit, first: Outpoint
) -> None:
    answer = await get(client, f"/v1/listings/{first}/proof")
    hops = [*answer["before"], answer, *answer["after"]]
    for hop, block in zip(hops, kit.branch()[-4:], strict=True):
        tx = read_tx(bytes.fromhex(hop["rawTx"]))
        assert hop["txid"] == tx.hex_id
        assert tx.txid in block.txids
        assert (hop["height"], bytes.fromhex(hop["header"])) == (block.height, block.raw[:80])
        assert hop["blockHash"] == sha256d(block.raw[:80])[::-1].hex()
        assert bump.read(bytes.fromhex(hop["bump"])).root(tx.txid) == block.raw[36:68]


async def test_the_transaction_where_the_satoshi_is_now_comes_with_its_proof_and_beef(
    client: ClientSession, kit: ChainKit, first: Outpoint
) -> None:
    answer = await get(client, f"/v1/listings/{first}/proof")
    (moved,), current = answer["after"], answer["current"]
    assert {name: current[name] for name in moved} == moved
    assert current["outpoint"] == f"{moved['txid']}_0"
    bundle = beef.read(bytes.fromhex(current["beef"]))
    assert bundle.newest.raw == bytes.fromhex(current["rawTx"])
    root = kit.branch()[-1].raw[36:68]
    assert beef.verify(bundle, lambda height, leads: (height, leads) == (current["height"], root)) == ()


def test_current_is_there_only_when_the_satoshi_moved_on_and_names_no_outpoint_once_it_is_burned(
    tmp_path: Path,
) -> None:
    kit = ChainKit()
    still, gone = kit.inscribe(agent("Still")), kit.inscribe(agent("Gone"))
    kit.mine(still, gone)
    burned = kit.burn(gone)
    kit.mine(burned)
    with indexed(kit, tmp_path) as indexing:
        assert proof(indexing.store, str(still)).current is None
        current = proof(indexing.store, str(gone)).current
    assert current is not None
    assert (current.outpoint, current.proved.txid) == (None, burned.txid)


async def test_headers_come_from_the_height_requested_on(
    client: ClientSession, kit: ChainKit, first: Outpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    headers = [block.raw[:80].hex() for block in kit.branch()]
    path = f"/v1/listings/{first}/proof?from="
    assert (await get(client, path + "0"))["headers"] == headers
    assert (await get(client, path + "2"))["from"] == 2
    assert (await get(client, path + "2"))["headers"] == headers[2:]
    assert (await get(client, path + "999999"))["headers"] == []
    monkeypatch.setattr(proofs, "MAX_HEADERS", 2)
    assert (await get(client, path + "1"))["headers"] == headers[1:3]


@pytest.mark.parametrize("query", ["from=-1", "from=x", "from=1&from=2", "form=1", "from=99999999999999999999"])
async def test_a_height_that_is_none_is_refused(client: ClientSession, first: Outpoint, query: str) -> None:
    await problem(await client.get(raw(f"/v1/listings/{first}/proof?{query}")), 400)


async def test_where_there_is_no_proof_the_problem_says_why(
    client: ClientSession, store: Store, first: Outpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    unknown = await problem(await client.get(f"/v1/listings/{'00' * 32}_0/proof"), 404)
    assert "no listing has the id" in unknown["detail"]
    domain = await problem(await client.get("/v1/listings/agent.example/proof"), 404)
    assert "no listing has the id" in domain["detail"]
    monkeypatch.setattr(stored_proofs, "MAX_RAW", 10)
    large = await problem(await client.get(f"/v1/listings/{first}/proof"), 404)
    assert "and a proof holds at most 10" in large["detail"]
    monkeypatch.undo()
    with store.engine.begin() as connection:
        connection.execute(delete(table))
    old = await problem(await client.get(f"/v1/listings/{first}/proof"), 404)
    assert "index the chain again" in old["detail"]


async def test_what_is_unconfirmed_has_no_proof_yet(
    serve: Serve, services: AppServices, store: Store, first: Outpoint
) -> None:
    class Waiting(ListingRepository):
        def listing(self, id: str, /):  # type: ignore[no-untyped-def]  # noqa: A002
            return replace(super().listing(id), created_time=None)

    client = await serve(changed(services, store=Waiting(store)))
    waiting = await problem(await client.get(f"/v1/listings/{first}/proof"), 404)
    assert "is unconfirmed: there is a proof once it is in a block" in waiting["detail"]


async def test_a_history_too_long_or_too_large_goes_without_its_other_transactions(
    client: ClientSession, first: Outpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit, value in (("MAX_LINEAGE", 2), ("MAX_RAW", 900)):
        monkeypatch.setattr(stored_proofs, limit, value)
        answer = await get(client, f"/v1/listings/{first}/proof")
        assert {"before", "after", "parents"}.isdisjoint(answer)
        assert answer["beef"]
        assert answer["current"]["beef"]
        monkeypatch.undo()


def test_kept_parents_that_stand_before_the_satoshi_go_with_the_proof(kit: ChainKit, tmp_path: Path) -> None:
    other, listed, later = kit.inscribe(agent("Other")), kit.inscribe(agent("Mine")), kit.inscribe(agent("Later"))
    kit.mine(other, listed, later)
    moved = kit.spend([other, kit.fund(), listed, later], [(1, p2pkh("bob")), (10**6, p2pkh("bob"))])
    kit.mine(moved)
    with indexed(kit, tmp_path) as indexing:
        result = proof(indexing.store, str(listed))
        assert [read_tx(parent).txid for parent in result.parents] == [other.txid]
        assert [item.txid for item in result.after or ()] == [moved.txid]


def test_the_beef_of_a_witness_chain_has_no_witness(tmp_path: Path) -> None:
    kit = ChainKit("ltc")
    listed = kit.reveal(agent("Lite"))
    kit.mine(listed)
    with indexed(kit, tmp_path, "ltc") as indexing:
        result = proof(indexing.store, str(listed))
    raw = result.winner.proved.proof.raw
    assert read_tx(raw, segwit=True).txid == listed.txid
    assert read_tx(raw, segwit=True).inputs[0].witness
    bundle = beef.read(result.winner.beef)
    assert bundle.newest.txid == listed.txid
    assert bundle.newest.raw != raw


def test_the_coinbase_that_proves_a_witness_counts_among_the_bytes_of_a_proof(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit = ChainKit("ltc")
    listed = kit.reveal(agent("Lite"))
    kit.mine(listed)
    with indexed(kit, tmp_path, "ltc") as indexing:
        proved = proof(indexing.store, str(listed)).winner.proved
        assert proved.coinbase is not None
        whole = len(proved.proof.raw) + len(proved.coinbase.raw)
        monkeypatch.setattr(stored_proofs, "MAX_RAW", whole)
        assert proof(indexing.store, str(listed)).winner.proved == proved
        monkeypatch.setattr(stored_proofs, "MAX_RAW", whole - 1)
        with pytest.raises(NoProofError, match=f"has {whole:,} bytes"):
            proof(indexing.store, str(listed))


def test_an_unknown_id_has_no_proof(store: Store) -> None:
    with pytest.raises(NoProofError, match="no block holds it"):
        proof(store, "nobody")


async def test_headers_are_served_by_chain_and_height(serve: Serve, services: AppServices) -> None:
    client = await serve(services)
    for query in ("", "?from=0", "?chain=bsv-regtest", "?chain=bsv:regtest"):
        answer = await get(client, f"/v1/headers{query}")
        assert (answer["chain"], answer["from"], len(answer["headers"])) == ("bsv:regtest", 0, 20_160)
    later = await get(client, "/v1/headers?from=29999")
    assert later["headers"] == [(29_999).to_bytes(80, "little").hex()]
    assert (await get(client, "/v1/headers?from=30000"))["headers"] == []
    for query, parameter in (("chain=gopher", "chain"), ("from=-1", "from"), ("from=x", "from"), ("to=1", "to")):
        async with client.get(f"/v1/headers?{query}") as refused:
            assert refused.status == 400
            assert (await refused.json())["errors"][0]["parameter"] == parameter
