"""A changed price or pay-to address is a warning for so many blocks, of inscribed cards and of fetched ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from indexer.store import FetchState, Store, Writer, block_writer, chain_marks, connect, visits
from overlay.listings.lookup import listing
from overlay.listings.recent_changes import aged, aged_hits, ages
from overlay.listings.repository import ListingRepository
from overlay.projection.documents import DocumentReader
from overlay.search.query import Hit, Hits
from overlay.text.compact_json import encode
from parsers.cards.price_changes import ADDRESS, PRICE
from tests.chainkit import ChainKit, agent
from tests.facts import says
from tests.fakes import MemoryChain
from tests.indexing import Indexing
from tests.pointer_facts import Clock, card, points, serves

ALICE, EVE = "1BoatSLRHtKNngkdXEeobR76b53LETtpyT", "1CounterpartyXXXXXXXXXXXXXXXUWLpVr"


def priced(amount: int, address: str = ALICE, **more: Any) -> dict[str, Any]:
    offer = {"id": "o", "currency": "USD", "amount": amount, "address": address, "skillIds": ["echo"]}
    return agent(**{"x-payment-config": [offer], **more})


def codes(item: dict[str, Any]) -> set[str]:
    """The change warnings compared with the oldest card."""
    return {warning["code"] for warning in aged(item, {}, 1)["warnings"]} & {PRICE, ADDRESS}


@pytest.fixture
def kit() -> ChainKit:
    return ChainKit(funds=100)


@pytest.fixture
def indexing(tmp_path: Path, kit: ChainKit) -> Iterator[tuple[Indexing, MemoryChain]]:
    chain = MemoryChain(*kit.blocks)
    with Indexing(f"sqlite:///{tmp_path}/a2b.db", chain) as created:
        yield created, chain


async def test_an_inscribed_card_warns_of_what_its_last_revision_changed(
    indexing: tuple[Indexing, MemoryChain], kit: ChainKit
) -> None:
    index, chain = indexing
    first = kit.inscribe(priced(1))
    cheap = kit.update(first, priced(1, description="only other words"))
    dear = kit.update(cheap, priced(9))
    for what in (first, cheap, dear):
        chain.arrive(kit.mine(what))
    await index.catch_up()
    catalogue = ListingRepository(index.store)
    item = listing(catalogue, str(first))
    assert codes(item) == {PRICE}
    assert [warning["detail"] for warning in aged(item, {}, 1)["warnings"] if warning["code"] == PRICE] == [
        "price rose from 1 to 9 USD"
    ]
    documents = list(DocumentReader(index.store).documents([str(first)]))
    by_height = {document.from_height: codes(json.loads(document.item)) for document in documents}
    assert [ages(document.item) for document in documents] == [
        "recentChanges" in json.loads(document.item) for document in documents
    ]
    assert list(by_height.values()) == [set(), set(), {PRICE}]


async def test_payments_redirected_by_a_new_owner_are_warned_of(
    indexing: tuple[Indexing, MemoryChain], kit: ChainKit
) -> None:
    index, chain = indexing
    first = kit.inscribe(priced(1))
    sold = kit.move(first, "eve")
    chain.arrive(kit.mine(first), kit.mine(sold), kit.mine(kit.update(sold, priced(1, EVE), owner="eve")))
    await index.catch_up()
    item = aged(listing(ListingRepository(index.store), str(first)), {}, 1)
    [warning] = [entry for entry in item["warnings"] if entry["code"] == ADDRESS]
    assert warning["detail"] == f"the pay-to address changed from {ALICE} to {EVE}; the owner has changed, too"


async def test_a_harmless_update_does_not_erase_the_warning_about_a_changed_price(
    indexing: tuple[Indexing, MemoryChain], kit: ChainKit
) -> None:
    index, chain = indexing
    tx = first = kit.inscribe(priced(1))
    cards = [priced(9), *(priced(9, description=f"other words {number}") for number in range(70)), priced(12)]
    chain.arrive(kit.mine(first))
    for body in cards:
        tx = kit.update(tx, body)
        chain.arrive(kit.mine(tx))
    await index.catch_up()
    item = listing(ListingRepository(index.store), str(first))
    assert len(item["recentChanges"]) == 2
    height = item["updatedHeight"]

    def details(now: int, blocks: int) -> list[str]:
        warnings = aged(item, {"demo": now}, blocks)["warnings"]
        return [warning["detail"] for warning in warnings if warning["code"] == PRICE]

    assert details(height, 1_008) == ["price rose from 1 to 12 USD"]
    assert details(height, 50) == details(height + 49, 50) == ["price rose from 9 to 12 USD"]
    assert details(height + 50, 50) == details(height, 0) == []


@pytest.mark.parametrize("harmless", [10, 70, 200])
async def test_harmless_updates_do_not_erase_an_address_that_was_changed_and_changed_back(
    tmp_path: Path, harmless: int
) -> None:
    """The first card already had the address to which the last change leads."""
    kit = ChainKit(funds=250)
    chain = MemoryChain(*kit.blocks)
    with Indexing(f"sqlite:///{tmp_path}/a2b.db", chain) as index:
        tx = first = kit.inscribe(priced(1, EVE))
        chain.arrive(kit.mine(first))
        changed = [priced(1, ALICE), priced(1, ALICE, description="good"), priced(1, EVE, description="back")]
        for body in [*changed, *(priced(1, EVE, description=f"words {number}") for number in range(harmless))]:
            tx = kit.update(tx, body)
            chain.arrive(kit.mine(tx))
        await index.catch_up()
        item = listing(ListingRepository(index.store), str(first))
        [document] = [
            entry for entry in DocumentReader(index.store).documents([str(first)]) if entry.until_height is None
        ]
    height = item["updatedHeight"]
    for shown in (item, json.loads(document.item)):
        assert [warning["code"] for warning in aged(shown, {"demo": height}, harmless + 2)["warnings"]].count(
            ADDRESS
        ) == 1
        assert len(shown["recentChanges"]) <= 4
    assert "changedHeight" not in aged(item, {"demo": height}, harmless)


async def test_a_price_that_is_what_it_was_is_no_change(indexing: tuple[Indexing, MemoryChain], kit: ChainKit) -> None:
    index, chain = indexing
    first = kit.inscribe(priced(9))
    cheap = kit.update(first, priced(1))
    again = kit.update(cheap, priced(9))
    for outpoint in (first, cheap, again):
        chain.arrive(kit.mine(outpoint))
    await index.catch_up()
    item = listing(ListingRepository(index.store), str(first))
    height = item["updatedHeight"]
    assert "changedHeight" not in aged(item, {"demo": height}, 2)
    assert aged(item, {"demo": height}, 1)["changedHeight"] == height


async def test_each_server_of_a_config_is_compared_with_itself(
    indexing: tuple[Indexing, MemoryChain], kit: ChainKit
) -> None:
    index, chain = indexing

    def config(**amounts: int) -> dict[str, Any]:
        offer = {"id": "o", "currency": "USD", "address": ALICE}
        return {
            "mcpServers": {
                name: {"command": "x", "x-payment-config": [{**offer, "amount": amount}]}
                for name, amount in amounts.items()
            }
        }

    first = kit.inscribe(config(a=1, b=1), type="a2b-mcp")
    chain.arrive(kit.mine(first), kit.mine(kit.update(first, config(a=1, b=2, c=3))))
    await index.catch_up()
    catalogue = ListingRepository(index.store)
    assert [codes(listing(catalogue, f"{first}#{key}")) for key in "abc"] == [set(), {PRICE}, set()]


def test_a_fetched_card_is_compared_with_the_one_that_was_met_before(tmp_path: Path) -> None:
    engine = connect(f"sqlite:///{tmp_path}/a2b.db")
    clock = Clock(1_700_000_000_000)
    store, writer = Store(engine), Writer(engine, clock)
    chain_marks.name_chain(writer, "demo", "bsv:regtest")
    offer = {"id": "o", "currency": "USD", "address": ALICE, "skillIds": ["do"]}
    old = card("Alpha", **{"x-payment-config": [{**offer, "amount": 1}]})
    new = card("Alpha", **{"x-payment-config": [{**offer, "amount": 5, "address": EVE}]})
    for label, body in (("1", old), ("2", new)):
        block_writer.append(writer, "demo", [says(label, points("a.example", body, label))])
        visits.record_fetch(writer, "a.example", serves(clock.tick(), body))
        clock.tick()
    catalogue = ListingRepository(store)
    assert codes(listing(catalogue, "a.example")) == {PRICE, ADDRESS}
    assert [codes(json.loads(document.item)) for document in DocumentReader(store).documents(["a.example"])] == [
        {PRICE, ADDRESS}
    ]
    writer.close()
    engine.dispose()


def test_a_card_without_a_hash_is_compared_with_what_was_served_before(tmp_path: Path) -> None:
    engine = connect(f"sqlite:///{tmp_path}/a2b.db")
    clock = Clock(1_700_000_001_500)
    store, writer = Store(engine), Writer(engine, clock)
    chain_marks.name_chain(writer, "demo", "bsv:regtest")
    offer = {"id": "o", "currency": "USD", "address": ALICE, "skillIds": ["do"]}
    cards = [card("Alpha", **{"x-payment-config": [{**offer, "amount": amount}]}) for amount in (1, 5, 7)]

    def item() -> dict[str, Any]:
        listed = listing(ListingRepository(store), "a.example")
        assert [codes(json.loads(document.item)) for document in DocumentReader(store).documents(["a.example"])] == [
            codes(listed)
        ]
        return listed

    block_writer.append(writer, "demo", [says("1", points("a.example"))])
    visits.record_fetch(writer, "a.example", serves(clock.tick(), cards[0], state=FetchState.UNHASHED))
    assert "recentChanges" not in item()
    assert codes(item()) == set()
    block_writer.append(writer, "demo", [says(str(height)) for height in range(2, 60)])
    clock.now = 1_700_000_050_500  # block 50 was 0.5 s ago
    visits.record_fetch(writer, "a.example", serves(clock.tick(), cards[1], state=FetchState.UNHASHED))
    assert codes(item()) == {PRICE}
    assert (aged(item(), {}, 1)["changedHeight"], item()["updatedHeight"]) == (51, 1)
    assert "changedHeight" in aged(item(), {"demo": 60}, 10)
    assert "changedHeight" not in aged(item(), {"demo": 61}, 10)
    visits.record_fetch(writer, "a.example", serves(clock.tick(60_000), cards[1], state=FetchState.UNHASHED))
    assert aged(item(), {}, 1)["changedHeight"] == 51  # served again, and still the same
    clock.tick()
    visits.record_fetch(writer, "a.example", serves(clock.tick(), cards[2], state=FetchState.UNHASHED))
    assert codes(item()) == {PRICE}  # and once more
    assert aged(item(), {}, 1)["changedHeight"] == 59
    writer.close()
    engine.dispose()


# -- for so many blocks


OTHER = {"code": "missing", "pointer": "", "detail": "x"}
CHANGES = [{"code": code, "pointer": "", "detail": "x"} for code in (PRICE, ADDRESS)]
ITEM: dict[str, Any] = {
    "recentChanges": [{"replacedAt": 100, "warnings": CHANGES}, {"replacedAt": 105, "warnings": []}],
    "id": "a", "chain": "demo", "warnings": [OTHER],
}  # fmt: skip


@pytest.mark.parametrize(
    ("heights", "blocks", "left"),
    [
        ({"demo": 100}, 10, 3),
        ({"demo": 109}, 10, 3),
        ({"demo": 110}, 10, 1),
        ({"demo": 100}, 0, 1),
        ({"other": 900}, 10, 3),
    ],
)
def test_the_warning_ends_after_so_many_blocks(heights: dict[str, int], blocks: int, left: int) -> None:
    answer = aged(ITEM, heights, blocks)
    assert len(answer["warnings"]) == left
    assert ("changedHeight" in answer, "recentChanges" in answer) == (left == 3, False)
    for item in (encode(ITEM), memoryview(encode(ITEM))):
        [shown] = aged_hits(Hits((Hit("a", item, 1.0, None, ("a",)),), 1), heights, blocks).hits
        assert json.loads(bytes(shown.item)) == answer
    assert ITEM["warnings"] == [OTHER]


def test_an_item_without_recent_changes_is_not_parsed() -> None:
    hit = Hit("a", b'{"not": "read"', 1.0, None, ("a",))
    assert aged_hits(Hits((hit,), 1), {}, 1).hits == (hit,)
