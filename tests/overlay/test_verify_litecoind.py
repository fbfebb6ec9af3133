"""A listing on a real node's chain, checked with that node as the user's own source, and without it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from indexer.chains.node import create
from indexer.errors import SourceError
from overlay import verify
from overlay.listings.local_source import LocalSource
from overlay.listings.repository import ListingRepository
from overlay.verify import VerificationReport
from overlay.verify.trusted_source import Node, TrustedSource, open_source
from parsers.bitcoin.tx import Outpoint, sha256d
from tests.chainkit import ChainKit, agent
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.litecoind import Litecoind, node

__all__ = ["node"]


def index(node: Litecoind, folder: Path) -> Indexing:
    """The index of a program that followed the node's chain."""
    chain = create("ltc", node.cookie_url)
    indexing = Indexing(f"sqlite:///{folder}/a2b.db", chain)

    async def follow() -> None:
        await indexing.catch_up()
        await chain.close()

    asyncio.run(follow())
    return indexing


def check(indexing: Indexing, id_: object, trusted: TrustedSource | None = None) -> VerificationReport:
    return verify.verify(
        LocalSource(ListingRepository(indexing.store)), str(id_), trusted=trusted, expected="ltc:regtest"
    )


def outcomes(report: VerificationReport) -> dict[str, str]:
    return {step.step: step.outcome for step in report.steps}


def test_a_listing_is_proved_to_the_end_with_a_node_of_ones_own(node: Litecoind, tmp_path: Path) -> None:
    plain = node.inscribe(agent("Plain", description="x" * 2_000))
    first = node.inscribe(agent("First"))
    node.mine()
    second = node.update(first, agent("Second"), map_in="envelope")
    node.mine()
    node.move_behind_a_coin(plain)
    node.mine(3)
    trusted = open_source(node.cookie_url)
    assert isinstance(trusted, Node)
    with index(node, tmp_path) as indexing:
        report = check(indexing, first)
        assert report.missing == [], report.steps
        assert outcomes(report)["newest"] == "not checked"
        proved = check(indexing, first, trusted)
        assert outcomes(proved) | {"domain": "proved"} == dict.fromkeys(outcomes(proved), "proved")

        # where it went behind a coin only the coin's value tells, which is not in the answer but in the node
        assert check(indexing, plain).missing == ["lineage"]
        assert outcomes(check(indexing, plain, trusted))["lineage"] == "proved"

        node.update(second, agent("Third"))
        assert outcomes(check(indexing, first, trusted))["newest"] == "proved"  # it is in no block yet
        node.mine()
        stale = check(indexing, first, trusted)
        assert stale.missing == ["newest"]
        assert "as spent" in next(step.detail for step in stale.steps if step.step == "newest")


def test_a_block_that_the_node_left_is_not_in_its_chain(node: Litecoind, tmp_path: Path) -> None:
    first = node.inscribe(agent("First"))
    node.mine()
    trusted = open_source(node.url)
    with index(node, tmp_path) as indexing:
        assert check(indexing, first, trusted).missing == []
        node.undo(1)
        node.mine_empty(2)
        report = check(indexing, first, trusted)
        assert report.missing == ["chain"]
        assert "does not have the block" in next(step.detail for step in report.steps if step.step == "chain")


def test_a_node_on_another_chain_is_named_as_such(node: Litecoind, tmp_path: Path) -> None:
    """The listing is on the chain of another node, as high as the user's own node's and higher."""
    kit = ChainKit("ltc")
    listed = kit.reveal(agent("Elsewhere"))
    kit.mine(listed)
    trusted = open_source(node.url)
    with Indexing(f"sqlite:///{tmp_path}/a2b.db", MemoryChain(*kit.blocks, name="demo", coin="ltc")) as indexing:
        asyncio.run(indexing.catch_up())
        report = check(indexing, listed, trusted)
        assert "chain" in report.missing
        detail = next(step.detail for step in report.steps if step.step == "chain")
        assert f"the chain of your own source {trusted.name} does not link with the served headers: at height" in detail
        # a node on another chain knows no such outpoint, which is not a word about it
        assert outcomes(report)["newest"] == "not checked"


def test_a_node_reports_unknown_blocks_and_refused_logins(node: Litecoind) -> None:
    trusted = open_source(node.url)
    nowhere = Outpoint(b"\1" * 32, 0)
    assert trusted.holds(b"\1" * 80, 5) is None
    assert trusted.unspent(nowhere) is False
    assert trusted.satoshis(nowhere) is None
    header = bytes.fromhex(node.rpc("getblockheader", node.rpc("getblockhash", 7), False))
    assert trusted.holds(header, 7) is True
    assert trusted.holds(header, 8) is False
    assert trusted.block_hash(7) == sha256d(header)
    assert trusted.height() == node.rpc("getblockcount")
    assert trusted.block_hash(node.rpc("getblockcount") + 1) is None
    coin = node.rpc("listunspent")[0]
    outpoint = Outpoint(bytes.fromhex(coin["txid"])[::-1], coin["vout"])
    assert trusted.unspent(outpoint) is True
    assert trusted.satoshis(outpoint) == round(coin["amount"] * 10**8)
    assert trusted.satoshis(outpoint._replace(vout=99)) is None
    assert trusted.name == f"http://127.0.0.1:{node.port}"
    with pytest.raises(SourceError):
        open_source(f"http://user:wrong@127.0.0.1:{node.port}").holds(header, 7)
    node.stop()
    with pytest.raises(SourceError):
        trusted.holds(header, 7)
