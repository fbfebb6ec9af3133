"""A chain of an EVM followed into the store: pointers, cards in full, reorganisations, and endpoints that fail."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Callable
from hashlib import sha256
from itertools import pairwise
from pathlib import Path

import pytest
import trustme
from aiohttp import web

from indexer.chains.evm import EvmChain, chain, create, endpoint, responses
from indexer.chains.failover import FailoverChain, Pace, join
from indexer.diagnosis.diagnoser import Diagnoser
from indexer.errors import OtherNetworkError, SourceError, SourceUnavailableError
from indexer.model import EventKind, Status
from indexer.retries import Backoff
from indexer.sync.agreement import PATIENCE_SECONDS, STOP_SECONDS, DeepReorgError
from indexer.sync.follower import Follower
from overlay.listings.stored_proofs import NoProofError, proof
from parsers.errors import ParseError
from tests import chain_records
from tests.clocks import Clock
from tests.evm_server import CONTRACT, GENESIS_TIME, EvmServer, refusal, says
from tests.indexing import Indexing
from tests.waiting import PATIENCE, until

CARD = json.dumps({"name": "Shop", "url": "https://shop.example", "skills": [{"id": "sell", "name": "Sell"}]}).encode()
HASH = sha256(CARD).digest()
SHOP = "https://shop.example/.well-known/agent.json"
PACE = Pace(grace=20, poll=0.005, backoff=Backoff(0.005, 0.01))


def carried(body: bytes, digest: bytes = bytes(32)) -> dict[str, object]:
    return says("data:application/json;base64," + base64.b64encode(body).decode(), digest)


@pytest.fixture
async def server() -> AsyncIterator[EvmServer]:
    async with EvmServer() as evm_server:
        yield evm_server


@pytest.fixture
async def indexing(server: EvmServer, tmp_path: object) -> AsyncIterator[Indexing]:
    followed = server.chain()
    with Indexing(f"sqlite:///{tmp_path}/a2b.db", followed) as created:
        yield created
    await followed.close()


def only(indexing: Indexing) -> EvmChain:
    (followed,) = indexing.chains
    assert isinstance(followed, EvmChain)
    return followed


def only_follower(indexing: Indexing) -> Follower:
    (follower,) = indexing.followers
    return follower


def pointers(indexing: Indexing) -> list[tuple[int, str]]:
    return [(pointer["height"], pointer["uri"]) for pointer in chain_records.pointers(indexing.store, "demo")]


# -- what logs say


async def test_a_pointer_is_an_event_named_by_its_log(server: EvmServer, indexing: Indexing) -> None:
    block = server.mine(says("https://other.example/card.json"), says(SHOP, HASH))
    await indexing.catch_up()
    first, second = chain_records.loose(indexing.store, "demo", EventKind.POINTED)
    txid = bytes.fromhex(block.logs[1]["transactionHash"][2:])[::-1]
    assert (second.height, second.event.txid, second.event.outpoint) == (1, txid, (txid, 1))
    assert (second.event.tx_index, second.event.position, second.event.valid) == (1, 1, True)
    assert (second.time, second.hash) == (int(block.row["timestamp"], 16), block.hash)
    pointer = second.event.pointer
    assert pointer is not None
    assert (pointer.id, pointer.domain, pointer.digest) == ("shop.example", "shop.example", HASH)
    assert (pointer.uri, pointer.form) == (SHOP, "evm")
    assert first.event.pointer is not None
    assert (first.event.pointer.id, first.event.pointer.digest) == ("https://other.example/card.json", None)


@pytest.mark.parametrize("digest", [bytes(32), HASH])
async def test_a_card_carried_in_full_is_a_registration_named_by_its_log(
    server: EvmServer, indexing: Indexing, digest: bytes
) -> None:
    log = server.mine(carried(CARD, digest)).logs[0]
    await indexing.catch_up()
    id_ = f"eip155:1:{CONTRACT}/{log['transactionHash']}:0"
    assert indexing.live() == {id_}
    (revision,) = indexing.store.history.of(id_)
    state = revision.event.state
    assert state is not None
    assert (revision.event.kind, state.status, state.kind.value) == (EventKind.INSCRIBED, Status.LIVE, "agent")
    assert (state.owner, state.map, state.updated_height, state.created_height) == (None, {}, 1, 1)
    assert indexing.store.content.cards([state.card]) == {HASH: CARD}


async def test_a_config_carried_in_full_is_a_tool(server: EvmServer, indexing: Indexing) -> None:
    server.mine(carried(b'{"mcpServers": {"tool": {"command": "npx"}}}'))
    await indexing.catch_up()
    (id_,) = indexing.live()
    state = indexing.store.history.of(id_)[-1].event.state
    assert state is not None
    assert state.kind.value == "tool"


async def test_broken_logs_are_rejected_with_their_reasons(server: EvmServer, indexing: Indexing) -> None:
    indexed = says(SHOP, HASH)
    indexed["topics"] = [*indexed["topics"], "0x" + "11" * 32]
    server.mine(
        {**says(SHOP), "data": "0x" + "ff" * 96},
        {**says(SHOP), "data": "0x"},
        indexed,
        says("data:text/plain,hello"),
        carried(b"{}"),
        carried(b"not JSON"),
        carried(CARD, bytes(31) + b"\1"),
    )
    await indexing.catch_up()
    assert [reason.partition(":")[0] for _, reason in indexing.rejections()] == [
        "the pointer cannot be decoded",
        "the pointer cannot be decoded",
        "the pointer cannot be decoded",
        "the uri is neither https nor ipfs",
        "the card has no name",
        "the card is not JSON",
        "the hash is not that of the card beside it",
    ]
    assert indexing.live() == set()


async def test_a_pointer_that_leads_nowhere_is_kept_with_its_reason(server: EvmServer, indexing: Indexing) -> None:
    server.mine(says("http://shop.example/card.json"))
    await indexing.catch_up()
    (pointer,) = chain_records.pointers(indexing.store, "demo")
    assert (pointer["valid"], pointer["reason"]) == (False, "the uri is neither https nor ipfs")


# -- what is stored of the chain


async def test_only_blocks_with_events_are_stored_and_the_last_of_each_stretch(
    server: EvmServer, indexing: Indexing
) -> None:
    server.mine_empty(99)
    server.mine(says(SHOP))  # block 100
    server.mine_empty(100)
    await indexing.catch_up()
    stored = [ref for height in range(201) if (ref := indexing.store.blocks.get("demo", height))]
    assert [ref.height for ref in stored] == [100, 200 - chain.NEAR, 200]
    assert all(upper.prev == lower.hash for lower, upper in pairwise(stored))
    server.mine()
    await indexing.catch_up()
    newest = indexing.store.blocks.newest("demo")
    assert newest is not None
    assert (newest.height, newest.prev, newest.time) == (
        201,
        stored[-1].hash,
        int(server.blocks[201].row["timestamp"], 16),
    )


async def test_a_reorganisation_takes_back_the_events_of_its_blocks(server: EvmServer, indexing: Indexing) -> None:
    server.mine_empty(50)
    server.mine(says(SHOP))
    server.mine(carried(CARD))
    await indexing.catch_up()
    assert pointers(indexing) == [(51, SHOP)]
    server.fork(50, says("https://b.example/card.json"))
    await indexing.catch_up()
    assert pointers(indexing) == [(51, "https://b.example/card.json")]
    assert indexing.live() == set()
    assert indexing.followers[0].progress.reorgs == 1
    assert [change.op for change in indexing.changes() if change.id.startswith("eip155")] == ["upsert", "revert"]


async def test_what_is_read_after_restarts_and_reorganisations_is_what_is_read_at_once(
    server: EvmServer, indexing: Indexing, tmp_path: object
) -> None:
    for turn in range(6):
        server.mine_empty(turn * 7)
        server.mine(says(f"https://{turn}.example/card.json"), carried(CARD))
        await indexing.catch_up()
        if turn % 2:
            server.fork(len(server.blocks) - 1 - turn, says(f"https://fork-{turn}.example/card.json"))
        indexing.restart()
    await indexing.catch_up()
    other = server.chain()
    with Indexing(f"sqlite:///{tmp_path}/fresh.db", other) as fresh:
        await fresh.catch_up()
        assert chain_records.everything(fresh.store, "demo") == chain_records.everything(indexing.store, "demo")
    await other.close()


async def test_reading_starts_at_the_configured_height(server: EvmServer, tmp_path: object) -> None:
    server.mine(says(SHOP))
    server.mine_empty(8)
    followed = server.chain("&from=5")
    with Indexing(f"sqlite:///{tmp_path}/a2b.db", followed) as indexing:
        await indexing.catch_up()
        assert pointers(indexing) == []
    assert server.ranges == [(5, 9)]
    assert followed.warning == ""
    assert server.requests["eth_getCode"] == 1  # nobody had to be asked when the contract was deployed
    await followed.close()


@pytest.mark.parametrize("number", [0, 1, 6, 9, 10])
async def test_by_default_reading_starts_where_the_contract_was_created(
    server: EvmServer, tmp_path: object, number: int
) -> None:
    server.mine_empty(10)
    server.deployed_at = number
    followed = server.chain()
    with Indexing(f"sqlite:///{tmp_path}/a2b.db", followed) as indexing:
        await indexing.catch_up()
    assert server.ranges[0][0] == number == followed.first
    assert server.requests["eth_getCode"] <= 6
    assert followed.warning == ""
    await followed.close()


@pytest.mark.parametrize(
    "answer",
    [
        refusal(-32000, "missing trie node d0f3 (path ) state 0xd0f3 is not available"),
        refusal(-32000, "the archive is busy", status=503),
        lambda _: web.json_response({"jsonrpc": "2.0", "id": 1, "result": None}),
    ],
)
async def test_where_nobody_knows_when_the_contract_was_made_reading_starts_at_block_0_and_says_so(
    server: EvmServer, tmp_path: object, answer: Callable[[web.Request], object]
) -> None:
    server.mine(says(SHOP))
    server.mine_empty(9)
    followed = server.chain()
    code = web.json_response
    server.fail("eth_getCode", lambda _: code({"jsonrpc": "2.0", "id": 1, "result": "0x60"}), *[answer] * 5)
    with Indexing(f"sqlite:///{tmp_path}/a2b.db", followed) as indexing:
        await indexing.catch_up()
        assert pointers(indexing) == [(1, SHOP)]
    assert "reading starts at block 0; set ?from=" in followed.warning
    await followed.close()


# -- finality


async def test_how_deep_a_reorganisation_may_go_is_what_the_endpoint_calls_final(
    server: EvmServer, indexing: Indexing
) -> None:
    server.finality = 10
    server.mine_empty(60)
    server.mine(says(SHOP))
    server.mine_empty(20)
    await indexing.catch_up()
    assert only(indexing).finality == 10
    server.fork(40)
    clock = only_follower(indexing).agreement.clock = Clock()
    only(indexing).headers.clear()
    with pytest.raises(SourceUnavailableError, match="contradicts the stored blocks above -1"):
        await indexing.catch_up()
    clock.now += STOP_SECONDS
    with pytest.raises(DeepReorgError, match="more than the last 11 stored blocks"):
        await indexing.catch_up()
    assert pointers(indexing) == [(61, SHOP)]


async def test_without_the_tag_nothing_is_final_but_by_the_number_given(server: EvmServer) -> None:
    server.finality = None
    for query, depth in (("", None), ("&finality=7", 7)):
        followed = server.chain(query)
        await followed.open()
        assert followed.finality == depth
        await followed.close()


async def test_on_a_development_network_anything_may_change(server: EvmServer) -> None:
    server.number = 31337
    followed = server.chain()
    await followed.open()
    assert (followed.caip2, followed.network, followed.finality) == ("eip155:31337", "regtest", None)
    await followed.close()


# -- tips that time does not allow, and parents


def time_of(block: int) -> int:
    return GENESIS_TIME + 12 * block


@pytest.mark.parametrize(("seconds", "is_read"), [(120, True), (121, False)])
async def test_a_tip_ahead_of_the_clock_is_not_read(
    server: EvmServer, indexing: Indexing, seconds: int, is_read: bool
) -> None:
    server.mine(says(SHOP))
    only(indexing).now = lambda: time_of(1) - seconds
    if is_read:
        await indexing.catch_up()
        assert pointers(indexing) == [(1, SHOP)]
    else:
        with pytest.raises(SourceUnavailableError, match="is 121 s ahead of this machine's clock"):
            await indexing.catch_up()


async def test_a_tip_with_more_blocks_than_its_time_allows_is_not_read_and_an_honest_one_is_afterwards(
    server: EvmServer, tmp_path: Path
) -> None:
    with Indexing(f"sqlite:///{tmp_path}/a2b.db") as indexing:
        followed = server.chain(store=indexing.source_store)
        indexing.chains = (followed,)
        server.mine_empty(10)
        await indexing.catch_up()
        server.alter(
            "eth_getBlockByNumber", lambda row: row and row | {"number": hex(int(row["number"], 16) + 100_100)}
        )
        with pytest.raises(SourceUnavailableError, match="is 100,100 blocks above the newest stored one and 0 s later"):
            await indexing.catch_up()
        server.faults.clear()
        server.mine(says(SHOP))
        await indexing.catch_up()
        assert pointers(indexing) == [(11, SHOP)]
        await followed.close()


async def test_invented_blocks_above_the_tip_are_given_up_after_ten_minutes(
    server: EvmServer, indexing: Indexing
) -> None:
    server.finality = 2
    server.mine_empty(20)
    honest = list(server.blocks)
    server.mine_empty(400)
    await indexing.catch_up()
    server.blocks = honest
    server.mine(says(SHOP))
    server.blocks[-1].row["timestamp"] = hex(time_of(500))  # later than the invented tip
    clock = only_follower(indexing).agreement.clock = Clock()
    with pytest.raises(SourceUnavailableError, match="the source contradicts the stored blocks above -1"):
        await indexing.catch_up()
    clock.now += PATIENCE_SECONDS
    await indexing.catch_up()
    await indexing.catch_up()
    assert pointers(indexing) == [(21, SHOP)]
    assert only_follower(indexing).progress.height == 21


async def test_a_stored_block_that_the_next_one_does_not_name_as_its_parent_is_contradicted(
    server: EvmServer, indexing: Indexing
) -> None:
    """A cache goes on answering the orphaned block by its number."""
    server.mine_empty(40)
    orphan = server.mine(says("https://orphan.example/card.json"))
    await indexing.catch_up()
    server.fork(40, says(SHOP))
    server.alter(
        "eth_getBlockByNumber", lambda row: orphan.row if row and row["number"] == orphan.row["number"] else row
    )
    await indexing.catch_up()
    assert pointers(indexing) == []
    with pytest.raises(SourceUnavailableError, match="has changed"):
        await indexing.catch_up()
    server.faults.clear()
    await indexing.catch_up()
    assert pointers(indexing) == [(41, SHOP)]


async def test_a_wrong_header_of_a_final_block_holds_the_chain_only_while_it_is_repeated(
    server: EvmServer, indexing: Indexing
) -> None:
    server.mine_empty(2_500)
    wrong = hex(999)
    server.alter(
        "eth_getBlockByNumber",
        lambda row: row | {"hash": "0x" + "ab" * 32} if row and row["number"] == wrong else row,
    )
    await indexing.catch_up()  # the block is the last of a range
    assert only_follower(indexing).progress.height == 999
    server.faults.clear()
    await indexing.catch_up()
    assert only_follower(indexing).progress.height == 2_500
    stored = indexing.store.blocks.get("demo", 999)
    assert stored is None or stored.hash == server.blocks[999].hash


@pytest.mark.parametrize("query", ["", "&clock=free"])
async def test_blocks_of_development_networks_have_any_time_and_need_not_link(
    server: EvmServer, tmp_path: Path, query: str
) -> None:
    server.number = 31337 if not query else 4_444
    followed = server.chain(query)
    followed.now = lambda: 0
    server.mine_empty(5)
    server.mine(says(SHOP))
    server.blocks[4].row["parentHash"] = "0x" + "cd" * 32
    with Indexing(f"sqlite:///{tmp_path}/a2b.db", followed) as indexing:
        await indexing.catch_up()
        assert pointers(indexing) == [(6, SHOP)]
    await followed.close()


@pytest.mark.parametrize("time", [253_402_300_800, 1 << 40])
async def test_a_time_that_is_no_date_is_not_read(server: EvmServer, indexing: Indexing, time: int) -> None:
    only(indexing).now = lambda: 1 << 41
    server.alter("eth_getBlockByNumber", lambda row: row and row | {"timestamp": hex(time)})
    with pytest.raises(SourceUnavailableError, match="is not a number from 0 to 253,402,300,799"):
        await indexing.catch_up()


@pytest.mark.parametrize("text", ["0x1_0", "0x 1", "0x", "0x+1", "1", "0X1", "0x1\n", "0x" + "0" * 65])
def test_a_quantity_is_0x_and_hex_digits(text: str) -> None:
    with pytest.raises(ParseError):
        responses.number(text)


# -- endpoints that answer little


@pytest.mark.parametrize("most", [1, 10, 700])
async def test_a_range_that_is_too_wide_is_halved_until_it_is_answered(
    server: EvmServer, indexing: Indexing, most: int
) -> None:
    for _ in range(3):
        server.mine(says(SHOP))
        server.mine_empty(60)
    server.most_blocks = most
    await indexing.catch_up()
    assert [height for height, _ in pointers(indexing)] == [1, 62, 123]
    answered = [(first, last) for first, last in server.ranges if last - first < most]
    assert answered[0][0] == 0
    assert all(later[0] == earlier[1] + 1 for earlier, later in pairwise(answered))


@pytest.mark.parametrize(
    "answer",
    [
        refusal(-32005, "query returned more than 10000 results"),
        refusal(-32000, "query timeout exceeded", 400),
        refusal(-32602, "Log response size exceeded"),
        lambda _: web.Response(status=413),
        lambda _: web.Response(status=504, text="<html>gateway time-out</html>"),
    ],
)
async def test_fewer_blocks_are_requested_whatever_an_endpoint_calls_too_many(
    server: EvmServer, indexing: Indexing, answer: object
) -> None:
    server.mine(says(SHOP))
    server.mine_empty(400)
    server.fail("eth_getLogs", answer, answer)  # type: ignore[arg-type]
    await indexing.catch_up()
    assert pointers(indexing) == [(1, SHOP)]
    assert server.ranges[0] == (0, (402 - chain.NEAR) // 4 - 1)


async def test_an_answer_that_is_too_large_or_too_slow_is_requested_in_parts(
    server: EvmServer, indexing: Indexing
) -> None:
    async def slow(_: web.Request) -> web.Response:
        await asyncio.sleep(3600)
        raise AssertionError

    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(200):
            await response.write(b"0" * (1 << 20))
        return response

    server.finality = None  # the next request is none of a second reading
    server.mine(says(SHOP))
    server.mine_empty(400)
    only(indexing).endpoint.rpc.whole_seconds = 20.0
    server.fail("eth_getLogs", endless)
    await indexing.catch_up()
    assert pointers(indexing) == [(1, SHOP)]
    assert server.ranges[0] == (0, (402 - chain.NEAR) // 2 - 1)
    server.mine(says("https://late.example/card.json"))
    only(indexing).endpoint.rpc.whole_seconds = 2.0
    server.fail("eth_getLogs", slow)
    with pytest.raises(SourceUnavailableError, match=r"takes more than 2 s for eth_getLogs"):
        await indexing.catch_up()  # one block cannot be halved
    only(indexing).endpoint.rpc.whole_seconds = 60.0
    await indexing.catch_up()
    assert pointers(indexing)[-1] == (402, "https://late.example/card.json")


async def test_a_block_may_say_more_than_several_may_at_once(
    server: EvmServer, indexing: Indexing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "RANGE_BYTES", 2_000)
    server.mine_empty(10)
    server.mine(*[says(SHOP)] * 5)  # 3.7 kB of JSON
    server.mine_empty(10)
    await indexing.catch_up()
    assert [height for height, _ in pointers(indexing)] == [11] * 5
    assert (11, 11) in server.ranges


async def test_ranges_grow_again_after_they_were_halved(server: EvmServer, indexing: Indexing) -> None:
    server.mine_empty(3_000)
    server.fail("eth_getLogs", *[refusal(-32005, "limit exceeded")] * 8)
    await indexing.catch_up()
    widths = [last - first + 1 for first, last in server.ranges]
    assert widths[0] == 3
    assert max(widths) > 100
    assert sum(widths) == 3_001


# -- nodes behind an endpoint that do not know the newest blocks


async def test_logs_that_a_node_does_not_have_yet_are_requested_by_their_block(
    server: EvmServer, indexing: Indexing
) -> None:
    server.mine_empty(40)
    await indexing.catch_up()
    server.mine(says(SHOP))
    server.mine()
    server.lag = 2
    await indexing.catch_up()
    assert pointers(indexing) == [(41, SHOP)]


async def test_a_tip_that_goes_back_is_waited_for(server: EvmServer, indexing: Indexing) -> None:
    server.mine_empty(40)
    server.mine(says(SHOP))
    server.mine_empty(3)
    await indexing.catch_up()
    ahead = server.blocks
    server.blocks = server.blocks[:-2]
    await indexing.catch_up()
    assert pointers(indexing) == [(41, SHOP)]
    assert (indexing.followers[0].progress.reorgs, indexing.followers[0].progress.height) == (0, 44)
    server.blocks = ahead
    await indexing.catch_up()
    assert indexing.followers[0].progress.reorgs == 0


async def test_a_chain_that_changes_while_it_is_read_is_read_again(server: EvmServer, indexing: Indexing) -> None:
    server.mine_empty(30)
    server.mine(says(SHOP))
    await indexing.catch_up()
    server.mine(says("https://old.example/card.json"))
    tips = []

    def meanwhile(rows: object) -> object:
        if not tips:
            tips.append(server.fork(31, says("https://new.example/card.json")))
        return rows

    server.alter("eth_getLogs", meanwhile)
    await indexing.catch_up()  # what it took for block 32 is no longer there, as the next look shows
    await indexing.catch_up()
    assert pointers(indexing) == [(31, SHOP), (32, "https://new.example/card.json")]


# -- endpoints that are not what they should be


async def test_another_network_than_the_one_named_stops_with_what_to_do(server: EvmServer) -> None:
    server.number = 137
    url = f"{server.base}?contract={CONTRACT}"
    for name, more in (("eth", ""), ("mine", "&chain=bsc"), ("mine", "&network=1"), ("polygon", "&network=amoy")):
        followed = create(name, url + more)
        with pytest.raises(SourceError, match=r"follows eip155:137 \(polygon mainnet\), not .*&network=137"):
            await followed.open()
        await followed.close()
    for name, more in (("polygon", ""), ("eth", "&chain=polygon"), ("eth", "&network=137"), ("mine", "")):
        followed = create(name, url + more)
        await followed.open()
        assert (followed.caip2, followed.network) == ("eip155:137", "mainnet")
        await followed.close()


async def test_an_address_without_a_contract_stops_with_what_to_do_unless_the_node_is_syncing(
    server: EvmServer,
) -> None:
    server.contracts.clear()
    followed = server.chain()
    with pytest.raises(SourceError, match=f"there is no contract at {CONTRACT} .* correct [?]contract="):
        await followed.open()
    server.syncing = {"currentBlock": "0x1", "highestBlock": "0x100"}
    with pytest.raises(SourceUnavailableError, match="still syncing"):
        await followed.open()
    await followed.close()


@pytest.mark.parametrize(
    ("name", "query", "why"),
    [
        ("eth", "", "contract='' is not a contract"),
        ("eth", "?contract=0xc0de", "contract='0xc0de' is not a contract"),
        ("eth", f"?contract={CONTRACT}&chain=gopher", "chain='gopher' is not available from"),
        ("eth", f"?contract={CONTRACT}&network=goerli", "ethereum has no network 'goerli'; use mainnet, sepolia"),
        ("mine", f"?contract={CONTRACT}&network=goerli", "network='goerli' is not a number"),
        ("eth", f"?contract={CONTRACT}&from=x", "from='x' is not a number of blocks"),
        ("eth", f"?contract={CONTRACT}&zmq=tcp://x", "unknown option 'zmq'"),
    ],
)
def test_a_url_that_cannot_be_meant_is_refused_with_what_would_be_right(name: str, query: str, why: str) -> None:
    with pytest.raises(SourceError) as refused:
        create(name, f"https://node.example/v3/key{query}") if name == "mine" else create(name, f"https://x{query}")
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("answer", "error", "why"),
    [
        (lambda _: web.Response(status=401), SourceError, "refuses access (401)"),
        (refusal(-32000, "invalid project id", 403), SourceError, "refuses access (403: invalid project id)"),
        (lambda _: web.Response(status=404, text="no"), SourceError, "is that the endpoint's whole URL"),
        (
            lambda _: web.Response(status=302, headers={"Location": "/"}),
            SourceError,
            "is that the endpoint's whole URL",
        ),
        (lambda _: web.Response(text="<html>"), SourceUnavailableError, "not as JSON-RPC does"),
        (lambda _: web.json_response([]), SourceUnavailableError, "not as JSON-RPC does"),
        (lambda _: web.Response(text="[" * 100_000), SourceUnavailableError, "not as JSON-RPC does"),
        (refusal(-32601, "no such method"), SourceUnavailableError, "refuses eth_chainId"),
    ],
)
async def test_an_unusable_answer_of_an_endpoint_is_reported_without_its_key(
    server: EvmServer, answer: object, error: type[SourceError], why: str
) -> None:
    followed = server.chain()
    server.fail("eth_chainId", answer)  # type: ignore[arg-type]
    with pytest.raises(error) as raised:
        await followed.open()
    assert why in str(raised.value)
    assert type(raised.value) is not SourceError or error is SourceError
    assert "0123456789abcdef" not in str(raised.value)
    await followed.open()
    await followed.close()


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: web.Response(status=429),
        lambda _: web.Response(status=503),
        refusal(-32005, "project ID request rate exceeded", 429),
        refusal(-32005, "daily request count exceeded, request rate limited"),
        refusal(429, "Your app has exceeded its compute units per second capacity"),
    ],
)
async def test_a_busy_endpoint_gets_the_request_again(server: EvmServer, answer: object) -> None:
    followed = server.chain()
    followed.endpoint.rpc.obey_retry_after = lambda _: None  # type: ignore[method-assign]
    server.fail("eth_chainId", answer, answer, answer)  # type: ignore[arg-type]
    await followed.open()
    assert server.requests["eth_chainId"] == 4
    await followed.close()


async def test_an_endpoint_that_asks_to_wait_gets_no_request_meanwhile(server: EvmServer) -> None:
    followed = server.chain()
    server.fail("eth_chainId", lambda _: web.Response(status=429, headers={"Retry-After": "300"}))
    with pytest.raises(SourceUnavailableError, match=r"asks to wait for \d+ more seconds"):
        await followed.open()
    assert server.requests["eth_chainId"] == 1
    await followed.close()


@pytest.mark.parametrize(("has_substitute", "longest"), [(False, 600), (True, 3_600)])
async def test_a_wait_counts_for_ten_minutes_and_for_an_hour_where_another_source_answers(
    server: EvmServer, has_substitute: bool, longest: int
) -> None:
    followed = server.chain()
    server.fail("eth_chainId", lambda _: web.Response(status=429, headers={"Retry-After": "999999"}))
    followed.endpoint.rpc.has_substitute = lambda: has_substitute
    with pytest.raises(SourceUnavailableError, match=rf"asks to wait for ({longest:,}|{longest - 1:,}) more seconds"):
        await followed.open()
    followed.endpoint.rpc.has_substitute = lambda: not has_substitute
    other = r"600|599" if has_substitute else r"3,600|3,599"
    with pytest.raises(SourceUnavailableError, match=f"asks to wait for ({other}) more seconds"):
        await followed.open()
    await followed.close()


async def test_a_source_has_a_substitute_while_another_one_of_its_name_answers(server: EvmServer) -> None:
    first, second = server.chain(), server.chain()
    failover = FailoverChain("demo", [("a", first), ("b", second)])
    assert not first.endpoint.rpc.has_substitute()
    await failover.open()
    await until(lambda: failover.sources[1]["state"] == "ready")
    assert first.endpoint.rpc.has_substitute()
    assert second.endpoint.rpc.has_substitute()
    await failover.close()


async def test_a_login_in_the_url_is_sent_and_never_shown(server: EvmServer) -> None:
    followed = create("demo", server.base.replace("//", "//user:p%40ss-word@") + f"?contract={CONTRACT}")
    seen = []

    def note(request: web.Request) -> web.Response:
        seen.append((request.headers["Authorization"], request.path_qs))
        return web.Response(status=500, text="user:p@ss-word")

    followed.endpoint.rpc.pauses = ()
    server.fail("eth_chainId", note)
    with pytest.raises(SourceUnavailableError) as raised:
        await followed.open()
    assert seen == [("Basic " + base64.b64encode(b"user:p@ss-word").decode(), server.path)]
    assert "ss-word" not in str(raised.value)
    await followed.close()


async def test_an_endpoint_whose_certificate_nobody_knows_stops_with_what_to_do() -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trustme.CA().issue_cert("127.0.0.1").configure_cert(context)
    async with EvmServer(tls=context) as server:
        followed = create("demo", f"{server.base.replace('http:', 'https:')}?contract={CONTRACT}")
        with pytest.raises(SourceError, match=r"is not trusted .* name the file of its authority in SSL_CERT_FILE"):
            await followed.open()
        await followed.close()


async def test_an_endpoint_without_eth_getlogs_stops_with_what_to_do(server: EvmServer, indexing: Indexing) -> None:
    server.fail("eth_getLogs", refusal(-32601, "the method eth_getLogs does not exist/is not available"))
    with pytest.raises(SourceError, match="does not offer eth_getLogs; use an endpoint that does"):
        await indexing.catch_up()


@pytest.mark.parametrize(
    "change",
    [
        lambda rows: {"logs": rows},
        lambda rows: [*rows, "log"],
        lambda rows: [{**row, "address": "0x" + "ab" * 20} for row in rows],
        lambda rows: [{**row, "topics": ["0x" + "ab" * 32]} for row in rows],
        lambda rows: [{**row, "topics": []} for row in rows],
        lambda rows: [{**row, "topics": row["topics"] * 5} for row in rows],
        lambda rows: [{**row, "blockNumber": "0xffff"} for row in rows],
        lambda rows: [{**row, "removed": True} for row in rows],
        lambda rows: [{**row, "data": "0xabc"} for row in rows],
        lambda rows: [{**row, "logIndex": None} for row in rows],
        lambda rows: [*rows, *({**row, "data": "0x"} for row in rows)],
        lambda rows: [*rows, *({**row, "logIndex": "0x9", "blockHash": "0x" + "ab" * 32} for row in rows)],
        lambda rows: [{**row, "blockHash": "0x" + "ab" * 32} for row in rows],
    ],
)
async def test_logs_that_cannot_be_true_are_not_believed_and_following_goes_on(
    server: EvmServer, indexing: Indexing, change: object
) -> None:
    server.mine(says(SHOP))
    server.alter("eth_getLogs", change)  # type: ignore[arg-type]
    with pytest.raises(SourceUnavailableError):
        await indexing.catch_up()
    assert indexing.store.blocks.newest("demo") is None
    server.faults.clear()
    await indexing.catch_up()
    assert pointers(indexing) == [(1, SHOP)]


async def test_a_repeated_log_counts_once(server: EvmServer, indexing: Indexing) -> None:
    server.mine(says(SHOP), carried(CARD))
    server.alter("eth_getLogs", lambda rows: [*rows, *rows][::-1])
    await indexing.catch_up()
    assert pointers(indexing) == [(1, SHOP)]
    assert len(indexing.live()) == 1


async def test_headers_that_cannot_be_true_are_not_believed(server: EvmServer, indexing: Indexing) -> None:
    await indexing.catch_up()
    server.mine(says(SHOP))
    for member in ("hash", "parentHash", "number", "timestamp", "logsBloom"):
        server.alter("eth_getBlockByNumber", lambda row, member=member: {**row, member: "0xzz"})
        with pytest.raises(SourceUnavailableError, match="sends an invalid answer to eth_getBlockByNumber"):
            await indexing.catch_up()
    assert only(indexing).violation_count == 5
    server.faults.clear()
    await indexing.catch_up()
    assert pointers(indexing) == [(1, SHOP)]


# -- several endpoints


async def test_several_endpoints_of_one_chain_stand_in_for_each_other(tmp_path: object) -> None:
    async with EvmServer() as one, EvmServer() as other:
        for server in (one, other):
            server.mine_empty(50)
            server.mine(says(SHOP))
        created = [(server.base, server.chain()) for server in (one, other)]
        followed = FailoverChain("demo", created, PACE)
        with Indexing(f"sqlite:///{tmp_path}/a2b.db", followed) as indexing:
            await indexing.catch_up()
            await until(lambda: [row["state"] for row in followed.sources] == ["current", "ready"])
            await one.stop()
            other.mine(says("https://next.example/card.json"))
            await indexing.catch_up()
            assert pointers(indexing) == [(51, SHOP), (52, "https://next.example/card.json")]
            assert [row["state"] for row in followed.sources] == ["unreachable", "current"]
            assert followed.finality == 52
            await followed.close()


async def test_an_endpoint_that_goes_on_is_preferred_to_one_that_has_stopped(tmp_path: object) -> None:
    async with EvmServer() as one, EvmServer() as other:
        for server in (one, other):
            server.mine(says(SHOP))
        for _ in range(3):
            other.mine(says("https://next.example/card.json"))
        created = [(server.base, server.chain()) for server in (one, other)]
        clock = Clock()
        followed = FailoverChain("demo", created, PACE, clock)
        with Indexing(f"sqlite:///{tmp_path}/a2b.db", followed) as indexing:
            await indexing.catch_up()
            for _ in range(10):  # length is no argument where there is no work
                clock.now += 60
                await asyncio.sleep(0.02)
                await indexing.catch_up()
            assert next(row["state"] for row in followed.sources) == "current"
            clock.now += PACE.stall
            other.mine(says("https://newest.example/card.json"))
            async with asyncio.timeout(PATIENCE):
                while len(pointers(indexing)) < 5:
                    await asyncio.sleep(0.01)
                    await indexing.catch_up()
            assert [row["state"] for row in followed.sources][1] == "current"
            one.fork(0)
            one.mine_empty(20)
            async with asyncio.timeout(PATIENCE):
                while next(row["state"] for row in followed.sources) != "current":
                    await asyncio.sleep(0.01)
                    clock.now += 1
                    await indexing.catch_up()
            await followed.close()


async def test_an_endpoint_that_becomes_another_networks_is_not_read(
    server: EvmServer, indexing: Indexing, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.mine(says(SHOP))
    await indexing.catch_up()
    monkeypatch.setattr(chain, "NETWORK_SECONDS", 0.0)
    server.number = 137
    server.mine(says("https://forged.example/card.json"))
    with pytest.raises(OtherNetworkError, match="follows eip155:137 now, and followed eip155:1"):
        await indexing.catch_up()
    server.number = 1
    await indexing.catch_up()
    assert len(pointers(indexing)) == 2


def test_a_name_repeated_is_one_chain_over_several_endpoints() -> None:
    urls = [f"https://{host}.example/rpc?contract={CONTRACT}" for host in ("a", "b")]
    assert isinstance(join("eth", urls), FailoverChain)


# -- messages for publishers


async def test_a_diagnosis_names_logs_and_no_satoshis(server: EvmServer, indexing: Indexing) -> None:
    for log in (says(SHOP), says("gopher://x"), {**says(SHOP), "data": "0x"}, carried(b"{}"), carried(CARD)):
        server.mine(log)
    await indexing.catch_up()
    diagnoser = Diagnoser(indexing.store, {})
    results = []
    for block in server.blocks[1:]:
        txid = block.logs[0]["transactionHash"]
        diagnosis = diagnoser.by_name(txid)
        assert diagnosis == diagnoser.by_name(txid.removeprefix("0x"))
        results.append([(step["step"], step["ok"]) for step in diagnosis["steps"][2:]])
    assert results == [
        [("pointer", True), ("fetched", False), ("listed", False)],
        [("pointer", False)],
        [("pointer", False)],
        [("json", True), ("card", False)],
        [("json", True), ("card", True), ("newest", True), ("listed", True)],
    ]
    with pytest.raises(NoProofError, match="its chain is read from a trusted endpoint and has no proof of work"):
        proof(indexing.store, *indexing.live())
