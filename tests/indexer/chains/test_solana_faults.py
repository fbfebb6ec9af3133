"""Endpoints of Solana that fail, lag, or answer wrongly: waited for or refused with a clear error, nothing stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from solders.hash import Hash

from indexer.chains import create
from indexer.chains.jsonrpc import JsonRpc
from indexer.chains.solana import accounts, endpoint
from indexer.chains.solana.chain import GENESIS, PATIENCE_SECONDS, SolanaChain
from indexer.errors import OtherNetworkError, SourceError, SourceRefusalError, SourceUnavailableError
from indexer.store import StoreError
from indexer.sync.follower import Follower
from parsers.errors import ParseError
from tests.chainkit import agent
from tests.indexing import Indexing
from tests.solana_server import PROGRAM, SolanaServer, named, server

ACCOUNTS = "getProgramAccounts"
KEY = "MKz2Xn8sV0d4Tt7qL1rWc3"

__all__ = ["server"]


@pytest_asyncio.fixture
async def followed(server: SolanaServer, tmp_path: Path) -> AsyncIterator[tuple[SolanaServer, Indexing, SolanaChain]]:
    with Indexing(f"sqlite:///{tmp_path}/solana.db") as indexing:
        chain = server.chain(indexing.source_store)
        indexing.chains = (chain,)
        await indexing.catch_up()
        yield server, indexing, chain
        await chain.close()


Followed = tuple[SolanaServer, Indexing, SolanaChain]


async def refused(followed: Followed, kind: type[SourceError] = SourceUnavailableError) -> str:
    """The message with which a look is refused; the store does not change."""
    _, indexing, _ = followed
    before = indexing.store.outbox.newest_seq(), indexing.store.blocks.newest("sol")
    with pytest.raises(SourceError) as error:
        await indexing.catch_up()
    assert isinstance(error.value, SourceUnavailableError)
    assert (indexing.store.outbox.newest_seq(), indexing.store.blocks.newest("sol")) == before
    return str(error.value)


async def goes_on(followed: Followed) -> None:
    """The next look finds what is there now."""
    server, indexing, _ = followed
    server.honest()
    server.put("a", agent("Later"))
    await indexing.catch_up()
    newest = indexing.store.blocks.newest("sol")
    assert newest is not None
    assert newest.height == server.slot


# -- slots and clusters


async def test_an_endpoint_that_lags_is_waited_for(followed: Followed) -> None:
    server, _, _ = followed
    server.slot -= 50
    assert "Minimum context slot has not been reached (code -32016)" in await refused(followed)
    server.slot += 50
    await goes_on(followed)


async def test_slots_that_go_back_are_refused(followed: Followed) -> None:
    server, _, _ = followed

    def back(answer: Any) -> Any:
        return {"context": {"slot": server.slot - 1}, "value": []}

    server.alter(ACCOUNTS, back)
    message = await refused(followed)
    assert f"is at slot {server.slot - 1:,}, and slot {server.slot:,} was read before" in message
    assert "finalized slots do not go back" in message
    await goes_on(followed)


async def test_slots_do_not_go_back_below_a_look_that_differed_in_nothing(followed: Followed) -> None:
    server, indexing, _ = followed
    server.advance(100)
    await indexing.catch_up()
    server.slot -= 50
    assert "Minimum context slot" in await refused(followed)


async def test_other_accounts_at_the_slot_that_was_read_are_refused(followed: Followed) -> None:
    server, _, _ = followed
    server.alter(ACCOUNTS, lambda answer: {**answer, "value": []})
    assert f"has other accounts at slot {server.slot:,} than before" in await refused(followed)
    await goes_on(followed)


async def test_an_endpoint_that_becomes_another_clusters_is_refused(followed: Followed) -> None:
    server, _, _ = followed
    server.alter("getGenesisHash", lambda _: next(iter(GENESIS)))
    message = await refused(followed, OtherNetworkError)
    assert f"the genesis hash is {next(iter(GENESIS))} now, and was {server.genesis}" in message


async def test_a_genesis_hash_that_was_wrong_at_the_start_after_its_part_of_the_id_ends_nothing(
    followed: Followed,
) -> None:
    server, _, chain = followed
    server.alter("getGenesisHash", lambda answer: answer[:-1] + ("1" if answer[-1] != "1" else "2"))
    await chain.open()
    server.honest()
    await goes_on(followed)
    assert chain.caip2 == server.caip2


async def test_a_database_of_another_cluster_is_refused(followed: Followed) -> None:
    server, indexing, _ = followed
    async with SolanaServer("another") as other:
        chain = other.chain(indexing.source_store)
        with pytest.raises(OtherNetworkError, match=rf"holds {server.caip2} under the name 'sol', and the source is"):
            await Follower(chain, indexing.store, indexing.writer).open()
        await chain.close()


async def test_another_program_by_the_same_name_is_refused_and_burns_nothing(followed: Followed) -> None:
    server, indexing, _ = followed
    other = create("sol", f"{server.url}?program={named('another program')}", indexing.source_store)
    with pytest.raises(StoreError, match=rf"holds program {PROGRAM} under the name 'sol', and the source is program"):
        await Follower(other, indexing.store, indexing.writer).open()
    await other.close()
    assert indexing.live("sol") == {server.id("a")}


@pytest.mark.parametrize(("genesis", "network"), GENESIS.items())
async def test_known_clusters_are_distinguished(server: SolanaServer, genesis: str, network: str) -> None:
    server.alter("getGenesisHash", lambda _: genesis)
    chain = server.chain()
    await chain.open()
    assert (chain.caip2, chain.network) == (f"solana:{genesis[:32]}", network)
    await chain.close()


# -- answers that fail


@pytest.mark.parametrize("method", ["getGenesisHash", ACCOUNTS])
@pytest.mark.parametrize("status", [500, 502, 503, 504])
async def test_an_endpoint_in_trouble_is_waited_for(followed: Followed, method: str, status: int) -> None:
    server, _, _ = followed
    server.fail(method, status)
    assert f"status {status}" in await refused(followed)
    await goes_on(followed)


async def test_an_endpoint_with_too_many_requests_gets_none_for_as_long_as_it_names(followed: Followed) -> None:
    server, _, _ = followed
    server.fail(ACCOUNTS, 429, Retry_After="100")
    assert "429" in await refused(followed)
    calls = server.calls()
    assert "asks to wait for" in await refused(followed)
    assert server.calls() == calls


@pytest.mark.parametrize(
    ("code", "what"),
    [(-32601, "does not serve this method"), (-32602, "does not take this program"), (-32010, "keeps no index")],
)
async def test_what_an_endpoint_does_not_serve_is_a_refusal_that_names_what_to_do(
    followed: Followed, code: int, what: str
) -> None:
    server, _, _ = followed
    server.refuse(ACCOUNTS, code, "no")
    assert what in await refused(followed, SourceRefusalError)


@pytest.mark.parametrize("code", [-32005, -32012, -32603, 0])
async def test_other_refusals_pass(followed: Followed, code: int) -> None:
    server, _, _ = followed
    server.refuse(ACCOUNTS, code, "node is behind by 42 slots")
    assert "node is behind by 42 slots" in await refused(followed)
    await goes_on(followed)


async def test_a_wrong_key_is_a_refusal_and_not_shown(followed: Followed) -> None:
    server, _, _ = followed
    server.fail(ACCOUNTS, 403)
    assert "refuses access (403)" in await refused(followed, SourceRefusalError)


async def test_a_slot_that_a_public_cluster_cannot_have_reached_is_not_believed(
    server: SolanaServer, tmp_path: Path
) -> None:
    server.genesis = Hash.from_string(next(iter(GENESIS)))
    with Indexing(f"sqlite:///{tmp_path}/solana.db") as indexing:
        chain = server.chain(indexing.source_store)
        indexing.chains, followed = (chain,), (server, indexing, chain)
        await indexing.catch_up()
        honest = server.slot
        for slot in (2**31 - 3, honest + 700):
            server.slot = slot
            assert f"is at slot {slot:,}, and slot" in await refused(followed)
        server.slot = honest + 500
        await goes_on(followed)
        await chain.close()
    with Indexing(f"sqlite:///{tmp_path}/solana.db") as indexing:
        chain = server.chain(indexing.source_store)
        indexing.chains = (chain,)
        server.slot = 2**31 - 3
        server.put("b", agent("Another"))
        assert "is the highest that can be reached by now" in await refused((server, indexing, chain))
        await chain.close()


async def test_a_slot_that_no_endpoint_reaches_for_ten_minutes_is_forgotten(followed: Followed) -> None:
    server, indexing, chain = followed
    stored = server.slot
    server.slot = stored + 10_000
    await indexing.catch_up()
    server.slot = stored + 50
    assert "Minimum context slot" in await refused(followed)
    now = chain.clock()
    chain.clock = lambda: now + PATIENCE_SECONDS
    assert "Minimum context slot" in await refused(followed)
    await goes_on(followed)
    assert indexing.store.blocks.newest("sol").height < stored + 10_000  # type: ignore[union-attr]


async def test_nobody_there_is_waited_for(tmp_path: Path) -> None:
    async with SolanaServer() as server:
        chain = server.chain()
    with pytest.raises(SourceUnavailableError, match="does not answer"):
        await chain.open()
    await chain.close()


async def test_more_than_can_be_read_at_once_is_not_read_at_all(followed: Followed) -> None:
    server, _, chain = followed
    chain.endpoint.answer_bytes = 10_000
    server.put("big", b"x" * 20_000)
    message = await refused(followed)
    assert "answers getProgramAccounts with more than 10,000 bytes" in message
    assert "follow a program with smaller accounts" in message
    server.shut("big")
    await goes_on(followed)


async def test_an_answer_without_end_is_given_up(followed: Followed) -> None:
    server, _, chain = followed
    chain.endpoint.current.whole_seconds = 2.0
    over = asyncio.Event()

    async def drip(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        await answer.write(b'{"jsonrpc":"2.0","result":')
        await over.wait()
        return answer

    server.break_off(ACCOUNTS, drip)
    assert "takes more than 2 s" in await refused(followed)
    over.set()
    chain.endpoint.current.whole_seconds = 60
    await goes_on(followed)


# -- answers that cannot be


def row(**more: Any) -> dict[str, Any]:
    account = {
        "lamports": 1,
        "owner": str(PROGRAM),
        "executable": False,
        "rentEpoch": 0,
        "data": ["YTJiAA==", "base64"],
    }
    return {"pubkey": str(named("z")), "account": {**account, **more}}


def value(rows: Any) -> Callable[[Any], Any]:
    return lambda answer: {**answer, "value": rows}


@pytest.mark.parametrize(
    ("forgery", "words"),
    [
        (lambda _: None, "the answer is missing or cannot be read"),
        (lambda _: [], "the answer is missing or cannot be read"),
        (lambda answer: answer["value"], "the answer is missing or cannot be read"),
        (lambda answer: {**answer, "context": {}}, "slot is missing or cannot be read"),
        (lambda answer: {**answer, "context": {"slot": True}}, "slot is missing or cannot be read"),
        (lambda answer: {**answer, "context": {"slot": "300000001"}}, "slot is missing or cannot be read"),
        (lambda answer: {**answer, "context": {"slot": 3e8}}, "slot is missing or cannot be read"),
        (lambda answer: {**answer, "context": {"slot": 2**31}}, "slot is missing or cannot be read"),
        (value(None), "value is missing or cannot be read"),
        (value({}), "value is missing or cannot be read"),
        (value([None]), "value is missing or cannot be read"),
        (value([{}]), "pubkey is missing or cannot be read"),
        (value([{**row(), "pubkey": "0" * 44}]), "is not an address"),
        (value([{**row(), "pubkey": "1" * 44}]), "is not an address"),
        (value([{**row(), "pubkey": "z" * 44}]), "is not an address"),
        (value([{**row(), "pubkey": 7}]), "pubkey is missing or cannot be read"),
        (value([{"pubkey": str(PROGRAM)}]), "account is missing or cannot be read"),
        (value([row(owner=str(named("other")))]), "belongs to"),
        (value([row(owner=None)]), "belongs to"),
        (value([row(), row()]), "is repeated"),
        (value([row(data="YTJiAA==")]), "data is missing or cannot be read"),
        (value([row(data=["YTJiAA=="])]), "data is missing or cannot be read"),
        (value([row(data=["3xV", "base58"])]), "data is missing or cannot be read"),
        (value([row(data=[None, "base64"])]), "data is missing or cannot be read"),
        (value([row(data={"parsed": {}, "program": "x"})]), "data is missing or cannot be read"),
        (value([row(data=["YTJiA", "base64"])]), "are not base64"),
        (value([row(data=["YTJi\n", "base64"])]), "are not base64"),
        (value([row(data=["YTJiÄ===", "base64"])]), "are not base64"),
        (value([row(data=["A" * (14 << 20), "base64"])]), "holds more than 10,485,760 bytes"),
    ],
)
def test_answers_that_no_endpoint_gives_are_refused_whole(forgery: Callable[[Any], Any], words: str) -> None:
    good = {"context": {"slot": 9, "apiVersion": "3.1.8"}, "value": [row()]}
    assert accounts.parse_snapshot(good, str(PROGRAM)) == accounts.Snapshot(9, {bytes(named("z")): b""})
    with pytest.raises(ParseError) as error:
        accounts.parse_snapshot(forgery(good), str(PROGRAM))
    assert words in str(error.value)


async def test_nothing_is_stored_of_an_answer_that_no_endpoint_gives(followed: Followed) -> None:
    server, _, _ = followed
    server.put("b", agent("Good, beside a bad one"))
    server.alter(ACCOUNTS, lambda answer: {**answer, "value": [*answer["value"], row(owner="me")]})
    assert "sends an invalid answer: the account" in await refused(followed)
    assert followed[1].chains[0].violation_count == 1
    await goes_on(followed)


async def test_an_endpoint_that_leaves_accounts_out_burns_nothing(followed: Followed) -> None:
    server, indexing, _ = followed
    server.put("b", {"uri": "https://echo.example/card.json"})
    for number in range(250):
        server.put(f"many {number}", agent())
    await indexing.catch_up()
    server.advance()
    server.alter(ACCOUNTS, lambda answer: {**answer, "value": []})
    assert "it leaves out the account" in await refused(followed)
    server.alter(
        ACCOUNTS,
        lambda answer: {**answer, "value": [row for row in answer["value"] if row["pubkey"] != str(named("b"))]},
    )
    assert f"leaves out the account {named('b')}, which it returns when requested alone" in await refused(followed)
    server.honest()
    for number in range(250):
        server.shut(f"many {number}")
    get_multiple_accounts = server.calls()["getMultipleAccounts"]
    await indexing.catch_up()
    assert indexing.live("sol") == {server.id("a")}
    assert server.calls()["getMultipleAccounts"] == get_multiple_accounts + 3


async def test_an_account_that_another_program_took_or_that_lost_its_mark_is_closed(followed: Followed) -> None:
    server, indexing, _ = followed
    server.put("b", agent("B"))
    await indexing.catch_up()
    server.hold("a", b"a2b\0{}", named("another program"))
    server.hold("b", b"b2a\0{}")
    await indexing.catch_up()
    assert indexing.live("sol") == set()
    assert indexing.store.registrations.counts("sol")["burned"] == 2


@pytest.mark.parametrize("forgery", [None, [], {"value": None}, {"value": []}, {"value": [{"owner": str(PROGRAM)}]}])
async def test_an_answer_on_missing_accounts_must_be_well_formed(followed: Followed, forgery: Any) -> None:
    server, _, _ = followed
    server.shut("a")
    server.alter("getMultipleAccounts", lambda _: forgery)
    assert "sends an invalid answer" in await refused(followed)
    await goes_on(followed)


def test_only_so_many_missing_accounts_are_requested(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "MISSING_CHECKED", 10)
    requests: list[int] = []

    async def answer(_method: str, names: list[str], _how: Any, **_: Any) -> Any:
        requests.append(len(names))
        return {"value": [None] * len(names)}

    solana_endpoint = endpoint.SolanaEndpoint([JsonRpc("sol", "https://endpoint.example")], str(PROGRAM))
    monkeypatch.setattr(solana_endpoint, "_ask", answer)
    for count in (0, 1, 10, 11, 95, 101):
        requests.clear()
        assert (
            asyncio.run(solana_endpoint.hidden_account([bytes((number,)) * 32 for number in range(count)], 1)) is None
        )
        assert min(count, 1) <= sum(requests) <= 10


def test_more_accounts_than_can_be_held_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accounts, "MOST_ACCOUNTS", 2)
    with pytest.raises(ParseError, match="3 accounts, where at most 2 are read"):
        accounts.parse_snapshot({"context": {"slot": 1}, "value": [row()] * 3}, str(PROGRAM))


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"7", b"[" * 100_000, b'{"id":1}', b'{"id":2,"result":[]}'])
async def test_what_is_no_answer_of_json_rpc_is_refused(followed: Followed, body: bytes) -> None:
    server, _, _ = followed

    async def rubbish(_: web.Request) -> web.Response:
        return web.Response(body=body, content_type="application/json")

    server.break_off(ACCOUNTS, rubbish)
    assert "not as JSON-RPC does" in await refused(followed)
    await goes_on(followed)


@pytest.mark.parametrize("answer", [None, 7, "", "no genesis", "0" * 44, {"hash": "x"}])
async def test_a_genesis_hash_that_is_none_is_refused(server: SolanaServer, answer: Any) -> None:
    server.alter("getGenesisHash", lambda _: answer)
    chain = server.chain()
    with pytest.raises(SourceUnavailableError, match="its genesis hash is"):
        await chain.open()
    await chain.close()


async def test_an_endpoint_that_does_not_filter_is_read_all_the_same(followed: Followed) -> None:
    server, indexing, _ = followed
    server.filters = False
    for number in range(5):
        server.hold(f"other {number}", bytes((number,)) * 40)
    server.put("b", agent("Mine"))
    await indexing.catch_up()
    assert {event.txid for past in indexing.store.history.select() for event in [past.event]} == {
        bytes(named("a")), bytes(named("b")),
    }  # fmt: skip


async def test_the_largest_account_is_read_and_a_card_of_that_size_is_rejected(followed: Followed) -> None:
    server, indexing, _ = followed
    server.put("largest", b" " * (10 * 1024 * 1024 - 4))
    server.put("roomy", agent("Roomy"), room=10 * 1024 * 1024 - 200)
    await indexing.catch_up()
    assert indexing.store.registrations.counts("sol") == {
        "live": 2,
        "burned": 0,
        "undecided": 0,
        "rejected": 1,
        "pointers": 0,
    }
