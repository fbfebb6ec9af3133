"""The client with a running overlay over the sample chain."""

from __future__ import annotations

from itertools import islice

import pytest

from overlay.answers.items import Item, ListingIds, ServerList
from overlay.client import AsyncOverlayClient, NotThereError, OverlayClient, Position, RefusedError, calls
from tests.overlay.calls import TOWER


def test_all_pages_hold_every_listing_once(overlay_url: str) -> None:
    with OverlayClient(f"{overlay_url}/v1") as overlay:
        whole = overlay.search(limit=100)
        pages = list(overlay.pages(limit=7))
        assert [len(page.items) for page in pages[:-1]] == [7] * (len(pages) - 1)
        assert [item.id for item in overlay.items(limit=7)] == [item.id for item in whole.items]
        assert whole.total == len(whole.items) > 14


def test_every_listing_and_history_is_read(overlay_url: str) -> None:
    with OverlayClient(overlay_url) as overlay:
        for item in overlay.items():
            listing = overlay.get(item.id)
            assert isinstance(listing, Item)
            assert (listing.name, listing.offers) == (item.name, item.offers)
            assert overlay.history(item.id).revisions[0].txid
        failover = next(overlay.get(item.id.partition("#")[0]) for item in overlay.items(type="tool") if "#" in item.id)
        assert isinstance(failover, ServerList)
        assert len(failover.servers) > 1


def test_a_listing_is_read_by_its_outpoint_and_its_transaction(overlay_url: str) -> None:
    with OverlayClient(overlay_url) as overlay:
        for item in overlay.items(limit=5):
            assert item.outpoint
            by_outpoint, by_transaction = overlay.get(item.outpoint), overlay.get(item.txid)
            assert isinstance(by_outpoint, Item | ServerList)
            assert by_outpoint.id == item.id.partition("#")[0]
            if isinstance(by_transaction, ListingIds):
                assert by_outpoint.id in by_transaction.ids
            else:
                assert by_transaction.id == by_outpoint.id
    assert calls.get("a").read({"ids": ["a_0", "a_1"]}) == ListingIds(ids=("a_0", "a_1"))


async def test_refused_and_missing_are_distinguished(overlay_url: str) -> None:
    async with AsyncOverlayClient(overlay_url) as overlay:
        with pytest.raises(NotThereError) as missing:
            await overlay.get(f"{'0' * 64}_0")
        with pytest.raises(RefusedError) as refused:
            await overlay.search("x", sort="color")
    assert (missing.value.status, refused.value.status) == (404, 400)
    assert refused.value.errors[0]["parameter"] == "sort"


def test_the_stream_continues_the_changes(overlay_url: str) -> None:
    with OverlayClient(overlay_url) as overlay:
        page = overlay.changes(limit=5)
        middle = Position(page.epoch, page.changes[2].seq)
        streamed = list(islice(overlay.stream(middle), 2))
        assert [change for _, change in streamed] == list(page.changes[3:])
        assert overlay.changes(streamed[-1][0], limit=1).changes[0].seq > page.changes[-1].seq


def test_the_other_routes_have_models(overlay_url: str) -> None:
    with OverlayClient(overlay_url) as overlay:
        trace = overlay.diagnose(overlay.get(TOWER).txid)
        assert trace.listed == (TOWER,)
        raw = bytes.fromhex(overlay.ask(calls.proof(TOWER))["rawTx"])
        assert overlay.diagnose(raw).listed == (TOWER,)
        assert overlay.check(overlay.card(TOWER)).ok
        assert overlay.ingest("ab" * 32).state == "waiting"
        assert overlay.status().chains[0].height is not None
