"""The pointer contract on a real development network: compiled, called, reorganised, followed."""

from __future__ import annotations

import base64
import json
import subprocess
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

import pytest
from Cryptodome.Hash import keccak

from indexer.chains import create
from indexer.chains.evm import EvmChain
from indexer.errors import SourceError
from indexer.state_hash import computed_state_hash, update_state_hash
from parsers.pointers.pointer import TOPIC
from tests import chain_records, hardhat
from tests.hardhat import Hardhat
from tests.indexing import Indexing
from tests.liars.proxy import Proxy
from tests.running import Running

CARD = json.dumps({"name": "Shop", "url": "https://shop.example", "skills": [{"id": "sell", "name": "Sell"}]}).encode()
HASH = sha256(CARD).digest()
CARRIED = "data:application/json;base64," + base64.b64encode(CARD).decode()
SHOP = "https://shop.example/.well-known/agent.json"


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hardhat]:
    hardhat.require()
    with Hardhat(tmp_path_factory.mktemp("hardhat")) as created:
        yield created


@pytest.fixture
def chain(network: Hardhat) -> Hardhat:
    """The network with a contract of the test's own."""
    network.deploy()
    return network


@pytest.fixture
async def indexing(chain: Hardhat, tmp_path: Path) -> Iterator[Indexing]:  # type: ignore[misc]
    followed = create("demo", chain.url)
    assert isinstance(followed, EvmChain)
    followed.poll_seconds = 0.0
    with Indexing(f"sqlite:///{tmp_path}/a2b.db", followed) as created:
        yield created
    await followed.close()


def pointers(indexing: Indexing) -> list[tuple[int, str]]:
    return [(pointer["height"], pointer["uri"]) for pointer in chain_records.pointers(indexing.store, "demo")]


def test_the_contract_compiles_to_what_is_kept() -> None:
    result = subprocess.run([hardhat.require(), "compile.js"], cwd=hardhat.FOLDER, capture_output=True, check=True)
    assert json.loads(result.stdout) == hardhat.built()


def test_its_event_has_the_topic_that_is_looked_for() -> None:
    (event,) = [item for item in hardhat.built()["abi"] if item["type"] == "event"]
    assert not any(item["indexed"] for item in event["inputs"])
    signature = f"{event['name']}({','.join(item['type'] for item in event['inputs'])})"
    assert keccak.new(digest_bits=256, data=signature.encode()).digest() == TOPIC


async def test_what_the_contract_says_is_followed(chain: Hardhat, indexing: Indexing) -> None:
    start = chain.height
    pointer, carrying = chain.point(SHOP, HASH), chain.point(CARRIED)
    chain.mine(40)
    chain.point("gopher://shop.example")
    await indexing.catch_up()
    assert (indexing.chains[0].caip2, indexing.chains[0].network) == ("eip155:31337", "regtest")
    good, bad = chain_records.pointers(indexing.store, "demo")
    assert (good["txid"], good["height"], good["uri"]) == (pointer[2:], start + 1, SHOP)
    assert (good["domain"], good["hash"], good["form"], good["valid"]) == ("shop.example", HASH.hex(), "evm", True)
    assert (bad["height"], bad["reason"]) == (start + 43, "the uri is neither https nor ipfs")
    (id_,) = indexing.live()
    assert id_ == f"eip155:31337:{chain.contract.lower()}/{carrying}:0"
    (revision,) = indexing.store.history.of(id_)
    block = chain.block(start + 2)
    assert (revision.time, revision.hash[::-1].hex()) == (int(block["timestamp"], 16), block["hash"][2:])


async def test_a_reorganisation_takes_back_events(chain: Hardhat, indexing: Indexing) -> None:
    chain.point("https://stays.example/card.json")
    chain.mine(3)
    before, height = chain.rpc("evm_snapshot"), chain.height
    chain.point(SHOP, HASH)
    chain.point(CARRIED)
    await indexing.catch_up()
    assert (height + 1, SHOP) in pointers(indexing)
    assert len(indexing.live()) == 1
    assert chain.rpc("evm_revert", before)
    chain.mine(1)
    chain.point("https://other.example/card.json")
    chain.mine(1)
    await indexing.catch_up()
    assert pointers(indexing) == [
        (height - 3, "https://stays.example/card.json"),
        (height + 2, "https://other.example/card.json"),
    ]
    assert indexing.live() == set()
    assert indexing.followers[0].progress.reorgs == 1


async def test_events_in_a_pause_are_found_after_a_restart(chain: Hardhat, indexing: Indexing) -> None:
    chain.point("https://early.example/card.json")
    await indexing.catch_up()
    chain.mine(100)
    chain.point("https://late.example/card.json")
    chain.mine(100)
    indexing.restart()
    await indexing.catch_up()
    assert [uri for _, uri in pointers(indexing)] == [
        "https://early.example/card.json",
        "https://late.example/card.json",
    ]
    chain.point("https://later.example/card.json")
    await indexing.catch_up()
    await indexing.catch_up()
    assert [uri for _, uri in pointers(indexing)][2:] == ["https://later.example/card.json"]


async def test_logs_that_the_node_left_out_come_with_the_second_reading(chain: Hardhat, tmp_path: Path) -> None:
    start = chain.height
    for number in range(4):
        chain.point(f"https://shop{number}.example/card.json")
        chain.mine(40)
    async with Proxy(chain.port) as proxy:
        url = chain.url.replace(str(chain.port), str(proxy.port))
        with Indexing(f"sqlite:///{tmp_path}/a2b.db", create("demo", url)) as indexing:
            [follower] = await indexing.open()
            proxy.lie("empty lists", 1_000)
            await follower.catch_up()
            assert proxy.altered
            assert pointers(indexing)[:3] == []
            proxy.honest()
            while indexing.store.read_twice("demo") != chain.height:
                await follower.catch_up()
            assert [height - start for height, _ in pointers(indexing)] == [1, 42, 83, 124]
            assert update_state_hash(indexing.store, indexing.writer, "demo") == computed_state_hash(
                indexing.store, "demo", chain.height
            )
            await follower.chain.close()


async def test_another_network_or_contract_is_refused(chain: Hardhat) -> None:
    for url, why in (
        (
            chain.url.replace("chain=evm", "chain=polygon"),
            r"follows eip155:31337 \(a development network\), not polygon",
        ),
        (chain.url.replace(chain.contract, "0x" + "ab" * 20), "there is no contract at 0xabab"),
    ):
        followed = create("demo", url)
        with pytest.raises(SourceError, match=why):
            await followed.open()
        await followed.close()


def test_a_card_on_an_evm_chain_is_served_like_any_other(chain: Hardhat, tmp_path: Path) -> None:
    carrying = chain.point(CARRIED)
    id_ = f"eip155:31337:{chain.contract.lower()}/{carrying}:0"
    url = f"{chain.base}?contract={chain.contract}&network=31337"
    with Running("up", cwd=tmp_path, A2B_CHAINS=f"eth={url}", A2B_PORT="0") as overlay:
        overlay.until(lambda: [item["id"] for item in overlay.get("/v1/search?q=shop")["items"]] == [id_])
        (item,) = overlay.get("/v1/search?q=shop")["items"]
        assert (item["name"], item["chain"], item["txid"]) == ("Shop", "eth", carrying[2:])
        assert item["updatedHeight"] == chain.height
        (row,) = overlay.get("/v1/status")["chains"]
        assert (row["name"], row["chain"], row["state"]) == ("eth", "eip155:31337", "following")
        assert row["height"] == chain.height
        overlay.until(lambda: overlay.get("/v1/status")["stateHash"].get("eth", {}).get("hash"))
        overlay.until(lambda: overlay.get("/v1/status")["chains"][0]["readTwice"] == chain.height)
        overlay.until(lambda: overlay.get("/v1/status")["stateHash"]["eth"]["height"] == chain.height)
        chain.point(CARRIED.replace("data:", "DATA:"), HASH)
        overlay.until(lambda: overlay.get("/v1/search?q=shop&verified=false")["total"] == 2)
        overlay.until(
            lambda: (
                [(item["id"], item.get("duplicates")) for item in overlay.get("/v1/search?q=shop")["items"]]
                == [(id_, 1)]
            )
        )
        (item,) = overlay.get("/v1/search?q=shop")["items"]
        assert overlay.get(f"/v1/listings/{quote(id_, safe='')}")["duplicates"] == 1
