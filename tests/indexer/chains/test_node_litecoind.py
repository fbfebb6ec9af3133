"""A real node followed: litecoind mines, inscribes, reorganises, dies and comes back; an independent reader agrees."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from indexer.chains import Chain
from indexer.chains.node import create
from indexer.chains.node.address import read as read_address
from indexer.chains.node.chain import NodeChain
from indexer.chains.node.client import NodeClient
from indexer.chains.node.mined_payment import mined_payment
from indexer.retries import Backoff
from parsers.bitcoin import beef
from parsers.bitcoin.tx import read
from tests.conftest import missing
from tests.indexing import Indexing
from tests.litecoind import Litecoind, binary, hash_of
from tests.nodes import Publisher
from tests.oracles.witness import WitnessRegistry
from tests.oracles.witness_commitments import is_honest
from tests.proved import check_proofs
from tests.waiting import PATIENCE, until

Start = Callable[..., Litecoind]
Follow = Callable[..., Awaitable[Indexing]]


def card(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "url": f"https://{name}.example", "skills": [{"id": "a"}], **more}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a funded node, and kills it at the end."""
    if binary() is None:
        missing("litecoind")
    nodes: list[Litecoind] = []

    def start_(**switches: Any) -> Litecoind:
        node = Litecoind(tmp_path / "node", **switches)
        nodes.append(node)
        node.start()
        node.fund()
        return node

    yield start_
    for node in nodes:
        node.kill()


@pytest.fixture
async def follow(tmp_path: Path) -> AsyncIterator[Follow]:
    """Indexes a node as `ltc`; all is closed at the end."""
    created: list[tuple[Indexing, NodeChain]] = []

    async def follow_(url: str, store: str = "a2b.db") -> Indexing:
        chain = create("ltc", url)
        indexing = Indexing(f"sqlite:///{tmp_path}/{store}", chain)
        created.append((indexing, chain))
        await indexing.open()
        return indexing

    yield follow_
    for indexing, chain in created:
        indexing.__exit__()
        await chain.close()


def agree(indexing: Indexing, node: Litecoind) -> None:
    """Check that the index has the registrations that an independent reader finds in the node's blocks, at every
    height."""
    oracle = WitnessRegistry()
    blocks = node.blocks
    for raw in blocks:
        oracle.add_block(raw)
    answer = indexing.records("ltc")
    for registration in answer["registrations"]:
        for revision in registration["revisions"]:
            del revision["signer"]
    newest = indexing.store.blocks.newest("ltc")
    assert newest is not None
    assert newest.hash[::-1].hex() == hash_of(blocks[-1])
    assert strip(answer["registrations"]) == strip(oracle.registrations)
    assert all(map(is_honest, blocks))
    assert check_proofs(indexing.store, "ltc", segwit=True) > 0
    assert answer["pointers"] == oracle.pointers
    assert indexing.live("ltc") == oracle.ids("live")


def strip(registrations: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Without owners: the independent reader knows only addresses in base58."""
    stored = [
        {name: value for name, value in registration.items() if name != "owner"} for registration in registrations
    ]
    for item in stored:
        item["revisions"] = [
            {name: value for name, value in revision.items() if name != "owner"} for revision in item["revisions"]
        ]
    return stored


@pytest.mark.parametrize("rest", [True, False], ids=["rest", "rpc"])
async def test_a_registration_lives_on_a_real_chain(rest: bool, start: Start, follow: Follow) -> None:
    node = start(rest=rest)
    indexing = await follow(node.cookie_url)
    assert (indexing.chains[0].network, indexing.chains[0].first) == ("regtest", 0)
    first = node.inscribe(card("one", description="y" * 3_000), chunk=400)
    second = node.inscribe(card("two"), map_in="envelope")
    node.mine()
    await indexing.catch_up()
    agree(indexing, node)
    assert indexing.live("ltc") == {str(first), str(second)}
    tx = node.update(first, card("one-again"))
    node.point("agent.example", bytes(range(32)))
    node.mine()
    tx = node.move(tx)
    node.mine()
    node.burn(second)
    broken = node.update(tx, b"{no json")
    node.mine()
    await indexing.catch_up()
    agree(indexing, node)
    update = ["moved", "reinscribed"]  # to the output that commits, and from there
    assert indexing.kinds(first, "ltc") == ["inscribed", *update, "moved", "moved", "invalid"]
    assert indexing.kinds(second, "ltc") == ["inscribed", "burned"]
    assert indexing.registration(first, "ltc")["outpoint"] == str(broken)
    assert [pointer["domain"] for pointer in indexing.records("ltc")["pointers"]] == ["agent.example"]


async def test_owners_are_the_addresses_that_the_node_tells(start: Start, follow: Follow) -> None:
    node = start()
    tx = node.inscribe(card("one"))
    node.mine()
    indexing = await (await follow(node.url)).catch_up()
    answer = node.rpc("getrawtransaction", tx.txid[::-1].hex(), True)
    (address,) = answer["vout"][tx.vout]["scriptPubKey"]["addresses"]
    assert indexing.registration(tx, "ltc")["owner"] == address
    assert address.startswith("rltc1")


async def test_all_in_one_block_and_a_value_that_only_the_node_can_tell(start: Start, follow: Follow) -> None:
    node = start()
    indexing = await follow(node.url)
    tx = node.inscribe(card("one"))
    tx = node.update(tx, card("two"))
    tx = node.move(tx)
    node.mine()
    node.move_behind_a_coin(tx)
    node.mine()
    await indexing.catch_up()
    agree(indexing, node)
    (registration,) = indexing.records("ltc")["registrations"]
    assert [revision["kind"] for revision in registration["revisions"]] == [
        "inscribed",
        "moved",
        "reinscribed",
        "moved",
        "moved",
    ]


async def test_without_an_index_of_transactions_the_update_waits_until_there_is_one(
    start: Start, follow: Follow
) -> None:
    node = start()
    tx = node.inscribe(card("one"))
    node.mine()
    node.move_behind_a_coin(tx)
    node.mine()
    node.stop()
    node.txindex = False
    node.start()
    indexing = await follow(node.cookie_url)
    await indexing.catch_up()
    chain = indexing.chains[0]
    assert isinstance(chain, NodeChain)
    assert "-txindex=1" in chain.warning
    assert indexing.kinds(tx, "ltc") == ["inscribed", "undecided"]
    node.flush()
    node.kill()  # a polite end would wait half a minute for our connection, as nothing is asked meanwhile
    node.txindex = True
    node.start()
    await until(lambda: node.rpc("getindexinfo")["txindex"]["synced"])
    indexing.restart()
    await indexing.catch_up()
    assert chain.warning == ""
    assert indexing.kinds(tx, "ltc") == ["inscribed", "moved"]
    agree(indexing, node)


@pytest.mark.parametrize("rest", [True, False], ids=["rest", "rpc"])
async def test_blocks_with_a_mweb_part_are_read(rest: bool, start: Start, follow: Follow) -> None:
    node = start(rest=rest)
    node.activate_mweb()
    tx = node.inscribe(card("one"))
    node.peg_in()
    indexing = await follow(node.url)
    chain = indexing.chains[0]
    waiting = await chain.mempool()
    assert waiting is not None
    assert len(waiting) == 3
    transactions = await chain.transactions(waiting)
    assert tx.txid in transactions
    assert len(transactions) == 2, "the peg-in has a part that only the MWEB can read"
    node.mine()
    node.move(tx)
    node.mine()
    tip = bytes.fromhex(node.rpc("getblock", node.rpc("getbestblockhash"), 0))
    assert b"\x00\x08" in tip, "the block integrates the MWEB"
    await indexing.catch_up()
    agree(indexing, node)
    assert indexing.kinds(tx, "ltc") == ["inscribed", "moved"]


async def test_reorganisations_of_any_depth_up_to_twenty_are_followed(start: Start, follow: Follow) -> None:
    """Each takes back blocks that say something; what they said is mined again, later or never."""
    node = start()
    indexing = await follow(node.url)
    tx = node.inscribe(card("old"))
    node.mine(25)
    await indexing.catch_up()
    (follower,) = indexing.followers
    for depth in range(1, 21):
        newcomer = node.inscribe(card(f"new-{depth}"))
        tx = node.update(tx, card(f"old-{depth}"))
        node.mine(depth)
        await indexing.catch_up()
        assert str(newcomer) in indexing.live("ltc")
        node.undo(depth)
        await indexing.catch_up()
        node.mine_empty(depth + depth % 3)
        await indexing.catch_up()
        assert follower.progress.height == node.rpc("getblockcount")
        if depth % 3:
            assert str(newcomer) not in indexing.live("ltc")
        node.mine()
        await indexing.catch_up()
        assert str(newcomer) in indexing.live("ltc")
    agree(indexing, node)
    assert follower.progress.reorgs >= 20
    fresh = await (await follow(node.url, "fresh.db")).catch_up()
    assert fresh.facts("ltc") == indexing.facts("ltc")


async def test_a_node_killed_and_restarted_while_it_is_followed(
    start: Start, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node loses what it had not written, has another cookie, and goes on; so does the index.

    What it lost it mines again, differently: a reorganisation, or a while in which it is merely behind.
    """
    monkeypatch.setattr("indexer.sync.follower.BACKOFF", Backoff(0.05, 60))
    node = start()
    indexing = await follow(node.cookie_url)
    (follower,) = indexing.followers
    running = asyncio.create_task(follower.run())
    for round_ in range(3):
        node.inscribe(card(f"agent-{round_}"))
        node.mine(3)
        if round_ % 2:
            await until(lambda: follower.progress.height == node.rpc("getblockcount"))
        else:
            node.flush()
        node.kill()
        await until(lambda: follower.progress.state == "unreachable")
        await asyncio.to_thread(node.start)
        await until(lambda: follower.progress.state == "following")
    node.mine(5)
    await until(lambda: follower.progress.hash[::-1].hex() == node.rpc("getbestblockhash"))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    agree(indexing, node)


async def test_messages_of_a_real_node_are_received_at_once(
    start: Start, follow: Follow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian's build has no ZeroMQ: its blocks are published for it, each late, or never."""
    monkeypatch.setattr("indexer.chains.node.chain.SILENT_SECONDS", PATIENCE)
    monkeypatch.setattr("indexer.sync.catchup.POLL_SECONDS", PATIENCE, raising=False)
    monkeypatch.setattr("indexer.sync.follower.POLL_SECONDS", PATIENCE)
    node, publisher = start(), Publisher()
    try:
        indexing = await follow(f"{node.cookie_url}&zmq={publisher.address}")
        chain = indexing.chains[0]
        assert isinstance(chain, NodeChain)
        assert chain.zmq is not None
        (follower,) = indexing.followers
        running = asyncio.create_task(follower.run())
        await until(lambda: follower.progress.height == 110)
        async with asyncio.timeout(PATIENCE):
            while not chain.zmq.blocks:  # a subscription takes a moment to be known to the publisher
                publisher.publish("hashblock", bytes(32))
                await asyncio.sleep(0.05)
        tx = node.inscribe(card("one"))
        publisher.publish("rawtx", bytes.fromhex(node.rpc("getrawtransaction", tx.txid[::-1].hex())))
        publisher.publish("hashblock", bytes.fromhex(node.mine()))
        await until(lambda: str(tx) in indexing.live("ltc"))
        node.mine(2)
        publisher.publish("hashblock", bytes.fromhex(node.mine()))
        await until(lambda: follower.progress.height == 114)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        agree(indexing, node)
    finally:
        publisher.close()


async def mempool_becomes(chain: Chain, what: Callable[[frozenset[bytes]], bool]) -> bool:
    """Whether the mempool comes to be so: it is listed anew only after a while."""
    async with asyncio.timeout(PATIENCE):
        while not what(await chain.mempool() or frozenset()):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.01)
    return True


async def test_a_node_says_which_outputs_no_block_has_spent(start: Start, follow: Follow) -> None:
    node = start()
    indexing = await (await follow(node.url)).catch_up()
    chain = indexing.chains[0]
    outpoint = node.inscribe(card("one"))
    raw = (await chain.transactions([outpoint.txid]))[outpoint.txid]
    spent = [item.prevout for item in read(raw, segwit=True).inputs]
    assert await chain.unspent([outpoint]) == set(), "an unconfirmed output is of no block"
    node.mine()
    assert await chain.unspent([outpoint, *spent]) == {outpoint}


async def test_unconfirmed_transactions_are_listed_and_may_be_replaced(start: Start, follow: Follow) -> None:
    node = start()
    indexing = await (await follow(node.url)).catch_up()
    chain = indexing.chains[0]
    assert await chain.mempool() == frozenset()
    tx = node.inscribe(card("one"))
    assert await mempool_becomes(chain, lambda waiting: tx.txid in waiting)
    transactions = await chain.transactions([tx.txid])
    assert transactions[tx.txid].hex() == node.rpc("getrawtransaction", tx.txid[::-1].hex())
    node.mine()
    assert await mempool_becomes(chain, lambda waiting: not waiting)


async def test_the_payments_of_a_block_are_proved_with_what_they_spend(start: Start) -> None:
    node = start()
    address = node.rpc("getnewaddress", "", "legacy")
    txids = [node.rpc("sendtoaddress", address, amount / 100) for amount in range(1, 8)]
    client = NodeClient(read_address("node", node.url))
    assert await mined_payment(client, bytes.fromhex(txids[0])[::-1]) is None, "it is in no block yet"
    header = bytes.fromhex(node.rpc("getblockheader", node.mine(), False))
    node.mine()
    for txid in txids:
        payment = await mined_payment(client, bytes.fromhex(txid)[::-1])
        assert payment is not None
        proof = beef.read(payment.beef())
        assert (proof.newest.txid[::-1].hex(), payment.height) == (txid, node.rpc("getblockcount") - 1)
        assert proof.paths[0].merkle_root == header[36:68]
        spent = payment.tx.inputs[0].prevout
        parent = proof.member(spent.txid)
        assert parent is not None
        assert parent.tx is not None
        assert len(parent.tx.outputs) > spent.vout
    assert await mined_payment(client, bytes(32)) is None
    await client.close()
