"""How would I be found: ranks as they would be, prices beside others, and hints; in at most 20 searches."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession
from hypothesis import given
from hypothesis import strategies as st

from overlay import cli
from overlay.answers.publishing import HINTS, Findability
from overlay.api.services import AppServices
from overlay.engines import IndexPosition
from overlay.listings.findability import MOST_SEARCHES, Searches, findability, unlisted
from overlay.projection.documents import document
from overlay.projection.search_index import SearchIndex
from overlay.search.document import Document
from overlay.search.query import Hits, Query
from parsers.cards import Kind, examine
from tests.chainkit import agent
from tests.contracts.listed import ask, listing, price, put
from tests.overlay.calls import TOWER, get, problem
from tests.overlay.conftest import Serve
from tests.overlay.fakes import CAIP2, CHAIN, FakeEngine, changed

WATCH = {
    "name": "Night watch", "url": "https://night.example/",
    "description": "Watches your channels at night, while you are asleep.",
    "skills": [
        {"id": "watch", "name": "Watch a channel", "description": "Watches a payment channel.", "tags": ["lightning"],
         "examples": ["Watch my payment channel overnight", "penalty transaction"]},
    ],
    "x-payment-config": [{"id": "basic", "amount": "5", "currency": "USD", "interval": "P1M", "address": "x"}],
}  # fmt: skip


@pytest.fixture
def documents(services: AppServices) -> list[Document]:
    assert isinstance(services.engine, FakeEngine)
    return services.engine.documents


@pytest.fixture
def index(documents: list[Document], tmp_path: Path) -> Iterator[SearchIndex]:
    with closing(SearchIndex(f"native:{tmp_path}/index", meaning=True)) as opened:
        opened.replace([entry.registration for entry in documents], documents, IndexPosition("epoch", 1))
        yield opened


def document_of(card: dict[str, Any]) -> Document:
    examined = examine(json.dumps(card).encode())
    assert examined.card is not None
    return document(unlisted(examined.card, CHAIN, CAIP2))


@pytest.mark.parametrize(
    "text",
    ["night watch", "Watch my payment channel overnight", "lightning", "asleep", "watchtower channel", "zzz", "nihgt"],
)
def test_a_card_ranks_as_it_would_in_an_index_that_has_it(
    index: SearchIndex, documents: list[Document], tmp_path: Path, text: str
) -> None:
    card = document_of(WATCH)
    search = index.with_document(card)
    assert search is not None
    newest = max(entry.updated_time or 0 for entry in documents)
    listed = replace(card, created_time=newest, updated_time=newest)
    with closing(SearchIndex(f"native:{tmp_path}/with", meaning=True)) as other:
        everything = [*documents, listed]
        other.replace([entry.registration for entry in everything], everything, IndexPosition("epoch", 1))
        expected, got = ask(other, text, limit=50), search(Query(text=text, limit=50))
    assert [(hit.id, pytest.approx(hit.score)) for hit in got.hits] == [(hit.id, hit.score) for hit in expected.hits]
    assert (got.total, got.plan) == (expected.total, expected.plan)
    assert card.id not in {hit.id for hit in ask(index, text, limit=50).hits}, "the index is as before"


@pytest.fixture
async def client(serve: Serve, services: AppServices, index: SearchIndex) -> ClientSession:
    return await serve(changed(services, engine=index))


async def checked(client: ClientSession, card: Any, **parameters: str) -> dict[str, Any]:
    async with client.post("/v1/check", params={"findability": "true", **parameters}, json=card) as answer:
        assert answer.status == 200
        return dict(await answer.json())


async def test_a_card_is_ranked_for_its_examples_skills_and_tags(client: ClientSession) -> None:
    result = (await checked(client, WATCH))["findability"]
    by_text = {search["q"]: search for search in result["searches"]}
    assert [search["source"] for search in result["searches"]] == ["example", "example", "skill", "tag"]
    first = by_text["Watch my payment channel overnight"]
    assert first["rank"] == 1
    assert first["lacks"] == ["overnight"] or first["lacks"] == []
    assert first["total"] >= first["rank"]
    async with client.get("/v1/search", params={"q": "lightning", "limit": "100"}) as answer:
        assert by_text["lightning"]["total"] == (await answer.json())["total"] + 1
    assert result["hints"] == []


async def test_an_update_is_ranked_instead_of_its_listing(client: ClientSession) -> None:
    item = await get(client, f"/v1/listings/{TOWER}")
    async with client.get(f"/v1/listings/{TOWER}/card") as answer:
        card = json.loads(await answer.read())
    of_listing = await get(client, f"/v1/listings/{TOWER}/findability")
    as_update = (await checked(client, card, id=TOWER))["findability"]
    as_copy = (await checked(client, card))["findability"]
    totals = [[search["total"] for search in entry["searches"]] for entry in (of_listing, as_update, as_copy)]
    assert totals[0] == totals[1]
    assert totals[2] == [total + 1 for total in totals[0]]
    for search in of_listing["searches"]:
        async with client.get("/v1/search", params={"q": search["q"], "limit": "100"}) as answer:
            ids = [entry["id"] for entry in (await answer.json())["items"]]
        assert search["rank"] == (ids.index(item["id"]) + 1 if item["id"] in ids else None)


async def test_what_is_no_card_has_no_findability(client: ClientSession) -> None:
    assert "findability" not in await checked(client, [{"amount": 1, "currency": "BSV"}])
    assert "findability" not in await checked(client, {"name": "x"})
    async with client.post("/v1/check", json=WATCH) as answer:
        assert "findability" not in await answer.json()
    async with client.get("/v1/listings/nobody/findability") as answer:
        await problem(answer, 404)


async def test_without_the_default_engine_a_card_is_not_ranked(serve: Serve, services: AppServices) -> None:
    result = (await checked(await serve(services), WATCH))["findability"]
    assert {search["rank"] for search in result["searches"]} == {None}
    assert result["hints"] == []


HTML = {"Accept": "text/html"}


async def test_the_pages_show_it(client: ClientSession) -> None:
    async with client.get(f"/listings/{TOWER}/findability", headers=HTML) as answer:
        assert answer.status == 200
        text = (await answer.read()).decode()
    result = await get(client, f"/v1/listings/{TOWER}/findability")
    assert text.count('<tr role="row"><th scope="row"') == len(result["searches"]) > 0
    async with client.get("/listings/nobody/findability", headers=HTML) as answer:
        assert answer.status == 404
    fields = {"what": json.dumps(WATCH), "as": "found"}
    async with client.post("/register", data=fields, headers=HTML) as answer:
        text = (await answer.read()).decode()
    assert "How would I be found?</h2>" in text
    assert "Watch my payment channel overnight" in text
    async with client.post("/register", data={"what": json.dumps(WATCH)}, headers=HTML) as answer:
        assert "How would I be found?</h2>" not in (await answer.read()).decode()


async def test_the_command_prints_it(client: ClientSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "card.json").write_text(json.dumps(WATCH))

    def run(*arguments: str) -> tuple[object, str]:
        with pytest.raises(SystemExit) as ended:
            cli.main(["check", str(tmp_path / "card.json"), *arguments])
        return ended.value.code, capsys.readouterr().out

    async with client.get("/healthz") as answer:
        url = str(answer.url.origin())
    code, out = await asyncio.to_thread(run, "--findability", "--url", url)
    assert code == 0
    assert "found example 'Watch my payment channel overnight': 1 of " in out
    assert run("--findability")[0] == 2


def searched_for(index: SearchIndex, card: dict[str, Any]) -> Findability:
    examined = examine(json.dumps(card).encode())
    assert examined.card is not None
    new = unlisted(examined.card, CHAIN, CAIP2)
    search = index.with_document(document(new))
    assert search is not None
    ranking = search

    def find(text: str) -> Hits:
        return ranking(Query(text=text, limit=100))

    return findability(new, Searches(find, ranking, is_listed=False, ranks=True, rates=lambda _: {}))


@pytest.mark.parametrize(("amounts", "median"), [("1 2 3 4", None), ("1 2 3 4 9", "3"), ("1 2 3 4 9 10", "3.5")])
def test_prices_are_beside_the_median_from_five_on(tmp_path: Path, amounts: str, median: str | None) -> None:
    with closing(SearchIndex(f"native:{tmp_path}/index")) as index:
        monthly = [
            listing(f"{number}_0", "Watch a channel", skills=["watch"], offers=[price(amount, "USD", "P1M")])
            for number, amount in enumerate(amounts.split())
        ]
        others = [
            listing("80_0", skills=["watch"], offers=[price("7", "USD")]),
            listing("81_0", skills=["watch"], offers=[price("8", "EUR", "P1M")]),
            listing("82_0", skills=["other"], offers=[price("9", "USD", "P1M")]),
        ]
        put(index, *monthly, *others)
        result = searched_for(index, WATCH)
        assert [(str(entry.median), entry.prices) for entry in result.prices] == (
            [(median, len(amounts.split()))] if median else []
        )
        by_skill = next(search for search in result.searches if search.source == "skill")
        assert by_skill.rank is not None
        if by_skill.rank > 1:
            assert by_skill.cheapest_before is not None
            assert (by_skill.cheapest_before.currency, by_skill.cheapest_before.interval) == ("USD", "P1M")


def test_each_hint_has_its_rule(tmp_path: Path) -> None:
    bare = {
        "name": "Bare", "url": "https://bare.example/", "skills": [{"id": "a"}, {"id": "b"}],
        "x-payment-config": [{"amount": "5", "currency": "USD"}],
    }  # fmt: skip
    with closing(SearchIndex(f"native:{tmp_path}/index")) as index:
        put(index, listing("1_0"))
        codes = [hint.code for hint in searched_for(index, bare).hints]
        assert codes == ["no-description", "no-example", "skill-not-described", "price-without-unit", "no-tag"]
        assert [hint.code for hint in searched_for(index, agent("Echo") | {"x-payment-config": []}).hints][-2:] == [
            "no-price", "no-tag",
        ]  # fmt: skip


_TEXTS = st.lists(st.text(max_size=12), max_size=30)
_SKILLS = st.lists(
    st.builds(
        lambda examples, tags, name: {"id": f"s{name}", "name": name, "examples": examples, "tags": tags},
        _TEXTS, _TEXTS, st.text(max_size=8),
    ),
    min_size=1, max_size=8,
)  # fmt: skip
_PRICES = st.lists(st.just({"amount": "1", "currency": "USD"}), max_size=3)


@given(_SKILLS, _TEXTS, _PRICES, st.booleans())
def test_at_most_twenty_searches_run(skills: Any, tags: list[str], prices: Any, is_listed: bool) -> None:
    card = {"name": "A", "url": "https://a.example/", "skills": skills, "tags": tags, "x-payment-config": prices}
    examined = examine(json.dumps(card).encode(), Kind.AGENT)
    assert examined.card is not None
    searches: list[object] = []

    def run(query: object) -> Hits:
        searches.append(query)
        return Hits((), 0)

    new = unlisted(examined.card, CHAIN, CAIP2)
    result = findability(new, Searches(run, run, is_listed, ranks=False, rates=lambda _: {}))
    assert len(searches) <= MOST_SEARCHES == 20
    assert len(result.hints) <= 7
    assert {hint.code for hint in result.hints} <= set(HINTS)
    assert len({search.q.casefold() for search in result.searches}) == len(result.searches)
