"""From accounts on Solana to HTTP answers: carried, written again and closed; pointed at, and pointed at no more."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from indexer.store import visits
from overlay.listings.repository import ListingRepository
from overlay.projection.projector import IndexProjector
from overlay.projection.search_index import SearchIndex
from overlay.search.query import Query
from tests.chainkit import agent, tool
from tests.indexing import Indexing
from tests.pointer_facts import Clock, card, serves
from tests.serving import built, serving
from tests.solana_server import PROGRAM, SolanaServer
from tests.waiting import until_told


def finds(*names: str) -> Any:
    return lambda page: sorted(item["name"] for item in page["items"]) == sorted(names)


async def test_accounts_are_searched_updated_and_gone_when_they_are_closed(tmp_path: Path) -> None:
    async with SolanaServer() as server:
        server.put("a", agent("Solana Translator"), room=100)
        server.put("b", tool("solana-clock"))
        server.put("c", b'{"name": "no card"}')
        async with serving(built(tmp_path, f"sol={server.url}?program={PROGRAM}&poll=1")) as session:
            page = await until_told(session, "/v1/search?q=translator", finds("Solana Translator"))
            (item,) = page["items"]
            body = json.dumps(agent("Solana Translator")).encode()
            assert (item["id"], item["type"], item["status"]) == (server.id("a"), "agent", "live")
            assert (item["chain"], item["caip2"], item["integrity"]) == ("sol", server.caip2, "inscribed")
            assert item["cardSha256"] == hashlib.sha256(body).hexdigest()
            assert item["updatedHeight"] == item["createdHeight"] == server.slot
            await until_told(session, f"/v1/search?type=tool&chain={server.caip2}", finds("solana-clock"))
            async with session.get(f"/v1/listings/{server.id('a')}/card") as answer:
                assert await answer.read() == body
            status = await until_told(session, "/v1/status", lambda report: report["chains"][0]["state"] == "following")
            assert (status["chains"][0]["chain"], status["chains"][0]["height"]) == (server.caip2, server.slot)
            assert "there is no state hash" in json.dumps(status)
            assert (status["listings"]["live"], status["listings"]["rejected"]) == (2, 1)

            server.put("a", agent("Solana Interpreter"))
            page = await until_told(session, "/v1/search?q=interpreter", finds("Solana Interpreter"))
            assert page["items"][0]["updatedHeight"] == server.slot
            assert page["items"][0]["createdHeight"] < server.slot
            server.shut("a")
            await until_told(session, "/v1/search?q=interpreter", finds())
            gone = await until_told(
                session, f"/v1/listings/{server.id('a')}", lambda report: report["status"] == "burned"
            )
            assert gone["name"] == "Solana Interpreter"
            reported = await until_told(session, f"/v1/listings/{server.id('a')}/history", bool)
            kinds = [revision["kind"] for revision in reported["revisions"]]
            assert kinds == ["burned", "reinscribed", "inscribed"]


async def test_a_card_that_an_account_points_at_is_listed_as_long_as_the_account_does(tmp_path: Path) -> None:
    body = card("Pointed At")
    clock = Clock(1_750_000_000_000)
    with Indexing(f"sqlite:///{tmp_path}/a2b.db") as indexing:
        indexing.writer.clock = clock
        async with SolanaServer() as server:
            chain = server.chain(indexing.source_store)
            indexing.chains = (chain,)
            engine = SearchIndex(f"native:{tmp_path / 'index'}")
            feed = IndexProjector(indexing.store, engine)

            async def listed() -> list[str]:
                clock.tick()
                await indexing.catch_up()
                feed.run()
                return [hit.id for hit in engine.search(Query(text="")).hits]

            def fetched(domain: str) -> None:
                visits.record_fetch(indexing.writer, domain, serves(clock.tick(), body))

            server.put("a", pointer("shop.example", body))
            assert await listed() == []
            fetched("shop.example")
            assert await listed() == ["shop.example"]
            stored_listing = ListingRepository(indexing.store).listing("shop.example")
            assert stored_listing is not None
            assert (stored_listing.card_body, stored_listing.caip2) == (body, server.caip2)

            server.put("a", pointer("shop.example", card("Another")))
            assert await listed() == [], "it names another hash now"
            server.put("a", pointer("shop.example", body))
            assert await listed() == [], "a pointer anew, which what was fetched before it was seen does not meet"
            fetched("shop.example")
            assert await listed() == ["shop.example"]
            server.put("a", pointer("else.example", body))
            assert await listed() == [], "it points elsewhere now"
            fetched("else.example")
            assert await listed() == ["else.example"]
            server.shut("a")
            assert await listed() == [], "the account is closed"
            server.put("a", agent("Carried"))
            assert await listed() == [server.id("a")]
            server.put("a", pointer("else.example", body))
            assert await listed() == [], "the card is burned, and its pointer is not met yet"
            await chain.close()
            engine.close()


def pointer(domain: str, body: bytes) -> dict[str, str]:
    return {"uri": f"https://{domain}/.well-known/agent.json", "hash": hashlib.sha256(body).hexdigest()}
