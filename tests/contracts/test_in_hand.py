"""Searches for ids, hosts and packages lead to the listing first, with a note, in every engine."""

from __future__ import annotations

from typing import Any

import pytest

from overlay.api.search_answer import next_cursor
from overlay.api.search_request import from_pairs
from overlay.engines import IndexPosition
from overlay.projection.search_index import SearchIndex
from overlay.search.document import Document
from overlay.search.facts import HERE, id_fact, outpoint_fact, package_fact, transaction_fact
from overlay.search.query import Hits
from parsers.bitcoin.tx import Outpoint
from tests.contracts.conftest import Filled
from tests.contracts.listed import EPOCH, listing, put

OWNER = "1BoatSLRHtKNngkdXEeobR76b53LETtpyT"
ORIGIN, NOW = (Outpoint(bytes([number]) * 32, number) for number in (0xAB, 2))
TXID = ORIGIN.txid[::-1].hex()


def agent(id_: str, *facts: str, **more: Any) -> Document:
    return listing(id_, more_facts=(id_fact(id_), *facts), **more)


def fill(engine: SearchIndex) -> None:
    inscribed = outpoint_fact(ORIGIN), outpoint_fact(NOW), transaction_fact(ORIGIN.txid), transaction_fact(NOW.txid)
    put(
        engine,
        agent(str(ORIGIN), *inscribed, name="Pasted", owner=OWNER, height=9, domain="desk.example"),
        agent("2", name="Talker", description=f"better than desk example {TXID} sky mcp", domain="other.example"),
        agent("3", name="Late", domain="desk.example", height=8, verified=True),
        agent("4", name="Copy", domain="desk.example", height=7, hidden_in=("", HERE), group="3"),
        agent("5", package_fact("@Quill/sky-mcp"), name="Forecast", words=("@quill/sky-mcp",), kind="tool"),
        agent("6", package_fact("sky-mcp"), name="Clouds and weather", words=("sky-mcp",), kind="tool", height=50),
        agent("7", name="Sky MCP", description="sky mcp: sky and mcp"),
        agent("8", name="Node.js helper", description="node.js"),
    )


def ask_in(engine: SearchIndex, text: str, **parameters: str) -> tuple[Hits, str]:
    request = from_pairs([("q", text), *parameters.items()], {})
    hits = engine.search(request.query)
    notes = [note.detail for note in request.notes_on(hits) if note.code == "looked-up"]
    return hits, (notes or [""])[0]


def ids_for(engine: SearchIndex, text: str, **parameters: str) -> list[str]:
    return [hit.id for hit in ask_in(engine, text, **parameters)[0].hits]


@pytest.mark.parametrize(
    ("text", "by"),
    [
        (str(ORIGIN), "id"),
        (f"ord://{ORIGIN}", "id"),
        (f"{TXID}:{ORIGIN.vout}", "id"),
        (f"{TXID.upper()}.{ORIGIN.vout}", "id"),
        (f" {TXID}i{ORIGIN.vout} ", "id"),
        (str(NOW), "outpoint"),
        (f"https://explorer.example/outpoint/{NOW}", "outpoint"),
        (TXID, "transaction"),
        (f"0x{TXID}", "transaction"),
        (f"https://explorer.example/tx/{NOW.txid[::-1].hex()}?tab=inputs", "transaction"),
        (OWNER, "owner address"),
    ],
)
def test_what_names_a_listing_finds_it_alone(filled: Filled, text: str, by: str) -> None:
    engine = filled(fill)
    for parameters in ({}, {"sort": "updated"}, {"sort": "-relevance"}):
        hits, note = ask_in(engine, text, **parameters)
        assert ([hit.id for hit in hits.hits], hits.total, hits.matched) == ([str(ORIGIN)], 1, 1)
        assert f"matched by {by};" in note
    assert ids_for(engine, text, type="tool") == []


@pytest.mark.parametrize("text", ["desk.example", "DESK.example:443", "https://desk.example/any/path?x=1#y"])
def test_a_host_leads_to_what_its_domain_verifies_then_to_the_oldest(filled: Filled, text: str) -> None:
    hits, note = ask_in(filled(fill), text, facets="type")
    assert [hit.id for hit in hits.hits] == ["3", str(ORIGIN)]
    assert "matched by host;" in note
    assert (hits.total, hits.facets) == (2, {"type": (("agent", 2),)})


def test_what_is_looked_up_is_read_page_by_page(engine: SearchIndex) -> None:
    fill(engine)
    many = [
        agent(f"{number}m", domain="desk.example", verified=number % 3 == 0, height=200 + number) for number in range(9)
    ]
    put(engine, *many, seq=2)
    whole = ids_for(engine, "desk.example")
    assert whole == ["3", "0m", "3m", "6m", str(ORIGIN), "1m", "2m", "4m", "5m", "7m", "8m"]
    assert [
        id_ for start in range(0, 12, 2) for id_ in ids_for(engine, "desk.example", limit="2", offset=str(start))
    ] == whole
    read, parameters = list[str](), {"q": "desk.example", "limit": "3"}
    while True:
        request = from_pairs(parameters.items(), {})
        hits = engine.search(request.query)
        read += [hit.id for hit in hits.hits]
        following = next_cursor(request, hits, IndexPosition(EPOCH, 2))
        if following is None:
            break
        parameters["cursor"] = following
    assert read == whole


@pytest.mark.parametrize(
    "text",
    [
        "@quill/sky-mcp",
        "@Quill/Sky-MCP@1.2.3",
        "npx -y @quill/sky-mcp@latest --verbose",
        "npm:@quill/sky-mcp",
        "pkg:npm/%40quill/sky-mcp@2.0.0",
        "https://www.npmjs.com/package/@quill/sky-mcp?activeTab=readme",
    ],
)
def test_a_package_finds_the_tools_that_install_it(filled: Filled, text: str) -> None:
    hits, note = ask_in(filled(fill), text)
    assert [hit.id for hit in hits.hits] == ["5"]
    assert "matched by package;" in note


def test_a_package_whose_name_is_words_leads_the_results_of_the_words(engine: SearchIndex) -> None:
    fill(engine)
    by_words = ask_in(engine, "sky mcp")[0]
    assert by_words.hits[0].id == "7"
    for text in ("sky-mcp", "sky_mcp"):
        hits, note = ask_in(engine, text, facets="type")
        assert hits.hits[0].id == "6"
        assert "the first result matched by package" in note
        assert {hit.id for hit in hits.hits} == {hit.id for hit in by_words.hits}
        assert (hits.total, dict(hits.facets or {})) == (by_words.total, {"type": (("agent", 2), ("tool", 2))})
        assert [hit.sort_key for hit in hits.hits] == sorted(hit.sort_key for hit in hits.hits)
        assert ids_for(engine, text, limit="1", offset="1") == [hits.hits[1].id]
    assert ids_for(engine, "sky-mcp==1.0") == ["6"]
    assert ids_for(engine, "uvx sky_mcp") == ["6"]
    assert "6" not in ids_for(engine, "sky-mcp", type="agent")


def test_what_names_nothing_is_searched_for_by_its_words(engine: SearchIndex) -> None:
    fill(engine)
    for text in ("node.js", "text-to-speech", '"desk.example"', "desk example", f'"{TXID}"', "tag:sky.example", "a/b"):
        assert ask_in(engine, text)[1] == ""
    assert ids_for(engine, "node.js")[0] == "8"
    assert ids_for(engine, '"desk.example"') == ["2"]
    assert ids_for(engine, f"{TXID} sky")[0] == "2"
