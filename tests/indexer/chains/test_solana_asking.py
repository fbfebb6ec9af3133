"""Requests to an endpoint of Solana, names of blocks that it does not report, and the configuration of a source."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest
from solders.account_decoder import UiAccountEncoding
from solders.commitment_config import CommitmentLevel
from solders.rpc.config import RpcAccountInfoConfig, RpcProgramAccountsConfig
from solders.rpc.filter import Memcmp
from solders.rpc.requests import GetProgramAccounts

from indexer.chains import create
from indexer.chains.solana.chain import SolanaChain
from indexer.errors import SourceError
from tests.indexing import Indexing
from tests.solana_server import PROGRAM, SolanaServer, base58, server

ACCOUNTS = "getProgramAccounts"
KEY = "MKz2Xn8sV0d4Tt7qL1rWc3"

__all__ = ["server"]


# -- blocks without an answer


@pytest.mark.parametrize(
    "forgery", [None, lambda _: None, lambda _: {}, lambda _: {"blockhash": "x", "blockTime": "x"}]
)
async def test_a_slot_without_a_block_is_named_by_its_accounts(
    server: SolanaServer, forgery: Any, caplog: pytest.LogCaptureFixture
) -> None:
    if forgery is None:
        server.blockless.add(server.slot)
    else:
        server.alter("getBlock", forgery)
        server.alter("getBlockTime", lambda _: None)
    answers = []
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            chain = server.chain()
            await chain.open()
            tip = await chain.tip()
            assert tip is not None
            answers.append(tip)
            await chain.close()
    assert answers[0].hash == answers[1].hash != bytes(server.block(server.slot))
    assert (answers[0].height, len(answers[0].hash)) == (server.slot, 32)
    assert answers[0].time > server.time, "the time of the look"
    assert f"does not send hash and time of the block of slot {server.slot}" in caplog.text


@pytest.mark.parametrize("status", [403, 404, 500, 503])
async def test_an_endpoint_that_fails_for_the_block_of_a_slot_does_not_stop_the_chain(
    server: SolanaServer, status: int
) -> None:
    for method in ("getBlock", "getBlockTime"):
        server.fail(method, *[status] * 10)
    chain = server.chain()
    await chain.open()
    tip = await chain.tip()
    assert tip is not None
    assert (tip.height, len(tip.hash)) == (server.slot, 32)
    await chain.close()


async def test_the_time_of_a_missing_block_is_requested_alone(server: SolanaServer) -> None:
    server.refuse("getBlock", -32601, "Method not found")
    chain = server.chain()
    await chain.open()
    tip = await chain.tip()
    assert tip is not None
    assert tip.time == server.time
    await chain.close()


# -- what is asked, and how it is configured


async def test_requests_for_accounts_equal_those_of_solders(server: SolanaServer) -> None:
    chain = server.chain()
    await chain.open()
    await chain.tip()
    await chain.close()
    query = next(call for call in server.requests if call["method"] == ACCOUNTS)
    account = RpcAccountInfoConfig(
        encoding=UiAccountEncoding.Base64, commitment=CommitmentLevel.Finalized, min_context_slot=0
    )
    begins = query["params"][1]["filters"][0]["memcmp"]["bytes"]
    assert base58(begins) == b"a2b\0"
    config = RpcProgramAccountsConfig(account, filters=[Memcmp(0, begins)], with_context=True)
    program, expected = json.loads(GetProgramAccounts(PROGRAM, config).to_json())["params"]
    assert expected["filters"][0]["memcmp"].pop("encoding") == "base58", "which old nodes do not know, and all assume"
    assert query["params"] == [program, {name: item for name, item in expected.items() if item is not None}]


async def test_looks_are_as_far_apart_as_configured(server: SolanaServer) -> None:
    chain = server.chain(more="&poll=3600")
    assert "every 0 s" in chain.warning
    chain.poll_seconds = 3600
    await chain.open()
    for _ in range(5):
        assert await chain.tip() is not None
    assert server.calls()[ACCOUNTS] == 1
    chain.poll_seconds = 0
    await chain.tip()
    assert server.calls()[ACCOUNTS] == 2
    await chain.close()


async def test_slots_below_from_are_not_read(server: SolanaServer) -> None:
    chain = server.chain(more=f"&from={server.slot + 5}")
    await chain.open()
    assert await chain.tip() is None
    server.advance(5)
    tip = await chain.tip()
    assert tip is not None
    assert (tip.height, chain.first) == (server.slot, server.slot)
    await chain.close()


async def test_a_restart_does_not_warn_that_the_database_begins_late(
    server: SolanaServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Indexing(f"sqlite:///{tmp_path}/solana.db") as indexing, caplog.at_level(logging.WARNING):
        for _ in range(2):
            indexing.chains = (server.chain(indexing.source_store),)
            await indexing.catch_up()
            await indexing.chains[0].close()
            indexing.restart()
    assert "the database begins at" not in caplog.text


async def test_keys_in_the_url_go_to_the_endpoint_and_nowhere_else(server: SolanaServer) -> None:
    source = create("mine", f"{server.url}v1?api-key={KEY}&program={PROGRAM}&poll=5")
    assert isinstance(source, SolanaChain)
    assert source.poll_seconds == 5
    server.fail("getGenesisHash", 403)
    with pytest.raises(SourceError, match="refuses access") as error:
        await source.open()
    assert KEY not in str(error.value)
    assert server.requests[-1]["path"] == f"/v1?api-key={KEY}"
    await source.close()


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "program='' is not an address of a program"),
        ("program=", "program='' is not an address of a program"),
        ("program=0OIl", "is not an address of a program"),
        (f"program={PROGRAM}1", "is not an address of a program"),
        ("program=" + "1" * 31, "is not an address of a program"),
        (f"program={PROGRAM}&poll=0", "poll='0' is not a number of seconds from 1 to 86,400"),
        (f"program={PROGRAM}&poll=1e3", "is not a number of seconds"),
        (f"program={PROGRAM}&poll=86401", "is not a number of seconds"),
        (f"program={PROGRAM}&from=x", "from='x' is not a number of blocks"),
        (f"program={PROGRAM}&program={PROGRAM}", "appears twice"),
        (f"program={PROGRAM}&finality=3", "unknown option 'finality'"),
        (f"program={PROGRAM}&chain=bsv", "unknown option 'program'"),
    ],
)
def test_the_fault_of_a_url_is_named(query: str, words: str) -> None:
    with pytest.raises(SourceError) as error:
        create("sol", f"https://endpoint.example/?{query}")
    assert words in str(error.value)
    assert str(error.value).startswith("sol: ")


@pytest.mark.parametrize(
    ("name", "query"), [("sol", ""), ("solana", ""), ("any", ""), ("any", "&chain=solana"), ("eth", "&chain=solana")]
)
def test_a_source_is_known_by_its_name_its_program_or_its_chain(name: str, query: str) -> None:
    assert isinstance(create(name, f"https://endpoint.example/?program={PROGRAM}{query}"), SolanaChain)
