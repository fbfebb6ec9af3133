"""A listing that the operator hides by law: no route of any protocol hands out its text, and all else stays."""

from __future__ import annotations

import asyncio
import json
import re
import time
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest
from aiohttp import ClientSession
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from indexer.state_hash import state_hash
from indexer.store.hidden import HideDecision, HideReason, Subject, hide, unhide
from overlay.app.composition import AppContext
from overlay.listings import lookup
from overlay.listings.repository import ListingRepository
from overlay.systems.mcp_registry.server_names import names_of
from parsers.claims.canonical_json import jcs
from tests.overlay.answer_models import fits
from tests.overlay.calls import TOWER, get, post, problem, raw
from tests.overlay.test_cli import Run, alone, index, run
from tests.running import SAMPLE
from tests.serving import built, serving
from tests.waiting import PATIENCE

__all__ = ["alone", "run"]


class Hidden(NamedTuple):
    """A listing to hide: its id, txid and card, its name as an MCP server, and texts of its card alone."""

    id: str
    txid: str
    sha256: str
    owner: str
    server: str
    texts: tuple[str, ...]


def decision(subject: Subject, value: str, **members: Any) -> HideDecision:
    usual = {
        "reason": HideReason.COURT_ORDER,
        "law": "DSA Art. 9",
        "text": "",
        "since": int(time.time()),
        "until": None,
    }
    return HideDecision(subject, value, **{**usual, **members})


def strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for member in value.values() if isinstance(value, dict) else value:
            yield from strings(member)
    elif isinstance(value, str):
        yield value


def hidden_of(context: AppContext, id_: str) -> Hidden:
    """A listing, with the texts of its card that no other card of the sample has."""
    repository = ListingRepository(context.store)
    ids = [key for _, _, key in context.store.registrations.by_age(None, 1_000)]
    cards = {key: record.card_body or b"{}" for key, record in repository.listings(ids).items()}
    others = b"".join(body for key, body in cards.items() if key != id_).decode()
    texts = {text for text in strings(json.loads(cards[id_])) if len(text) > 11 and text not in others}
    (listing, *_) = lookup.listings(repository, id_)
    server = names_of(repository, [listing]).get(id_, "")
    state = listing.state
    return Hidden(id_, state.winner.txid[::-1].hex(), state.card.hex(), state.owner or "", server, tuple(texts))


@asynccontextmanager
async def sample(folder: Path) -> AsyncIterator[tuple[AppContext, ClientSession]]:
    """A server of the packaged chain that has indexed all of it."""
    context = built(folder, SAMPLE)
    async with serving(context) as client:
        yield context, client


async def in_lists(client: ClientSession, id_: str) -> bool:
    page = await get(client, f"/v1/search?q={quote(id_)}")
    return id_ in {item["id"] for item in page["items"]}


async def until_listed(client: ClientSession, id_: str, *, listed: bool) -> None:
    """Wait until lists have it, or have it no longer."""
    async with asyncio.timeout(PATIENCE):
        while await in_lists(client, id_) is not listed:  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.02)


def addresses(paths: Iterable[str], hidden: Hidden, other: str) -> Iterator[str]:
    """An address of each GET route that could hand out a listing, as far as it is named there."""
    values = {
        "id": hidden.id, "what": hidden.txid, "server": hidden.server or "network.a2b.none/none", "version": "latest",
        "sha256": hidden.sha256, "digest": hidden.sha256,
    }  # fmt: skip
    queries = {
        "/v1/quote": [f"id={quote(hidden.id)}"],
        "/v1/compare": [f"id={quote(hidden.id)}&id={quote(other)}"],
        "/compare": [f"id={quote(hidden.id)}&id={quote(other)}"],
        "/v1/suggest": ["prefix=tow", "prefix=inv"],
        "/publish": [f"what={hidden.txid}"],
        "/register": [f"action=update&id={quote(hidden.id)}"],
    }
    questions = ["", f"q={quote(hidden.id)}", *(f"q={quote(text[: len(text) // 2])}" for text in hidden.texts[:2])]
    for path in paths:
        named = re.sub(r"{(\w+)}", lambda part: quote(values.get(part[1], "x"), safe=""), path)
        for query in queries.get(path, questions):
            yield f"{named}?{query}" if query else named


async def answers(client: ClientSession, hidden: Hidden, other: str) -> dict[str, tuple[int, str]]:
    """The status and text at every address."""
    document = await get(client, "/openapi.json")
    paths = [path for path, methods in document["paths"].items() if "get" in methods and path != "/v1/stream"]
    by_address = {}
    for address in addresses(paths, hidden, other):
        for accept in ("application/json", "text/html"):
            async with client.get(raw(address), headers={"Accept": accept}) as response:
                by_address[f"{address} {accept}"] = response.status, (await response.read()).decode("utf-8", "replace")
    return by_address


def shows(text: str, hidden: Hidden) -> list[str]:
    plain = text.replace("&#39;", "'").replace("&amp;", "&").replace("&#34;", '"')
    return [word for word in hidden.texts if word in plain or json.dumps(word)[1:-1] in plain]


@pytest.mark.timeout(900)
async def test_no_get_route_hands_out_what_is_hidden(tmp_path: Path) -> None:
    async with sample(tmp_path) as (context, client):
        page = await get(client, "/v1/search?limit=100&type=tool")
        tools = [item["id"] for item in page["items"] if "#" not in item["id"]]
        tool = max(tools, key=lambda id_: len(hidden_of(context, id_).texts))
        other = next(item["id"] for item in page["items"] if item["id"] != tool)
        subjects = [hidden_of(context, TOWER), hidden_of(context, tool)]
        before = [await answers(client, hidden, other) for hidden in subjects]
        counts = [sum(bool(shows(text, hidden)) for _, text in by_address.values())
                  for hidden, by_address in zip(subjects, before, strict=True)]  # fmt: skip
        assert min(counts) > 20, counts
        for hidden in subjects:
            hide(context.store.primary, decision(Subject.ID, hidden.id))
            await until_listed(client, hidden.id, listed=False)
        for hidden, earlier in zip(subjects, before, strict=True):
            after = await answers(client, hidden, other)
            leaks = {address: shows(text, hidden) for address, (_, text) in after.items() if shows(text, hidden)}
            assert leaks == {}
            refused = [address for address, (status, _) in after.items() if status == 451]
            before_hiding = [address for address, (status, text) in earlier.items()
                   if status == 200 and quote(hidden.id, safe="") in address and shows(text, hidden)]  # fmt: skip
            assert before_hiding
            assert {address for address in before_hiding if "q=" not in address} <= set(refused)


async def test_a_hidden_listing_is_451_until_its_time_is_over(tmp_path: Path) -> None:
    async with sample(tmp_path) as (context, client):
        chain = "demo"
        height = context.store.blocks.newest(chain).height  # type: ignore[union-attr]
        before = state_hash(context.store, chain, height)
        last = context.store.outbox.newest_seq()
        end = int(time.time()) + 86_400
        hide(context.store.primary, decision(Subject.ID, TOWER, text="by order of a court", until=end))
        async with client.get(raw(f"/v1/listings/{TOWER}/card")) as response:
            refused = await problem(response, 451)
            base = f"{client._base_url}".rstrip("/")
            assert response.headers["Link"] == f'<{base}/>; rel="blocked-by"'
            assert response.headers["Cache-Control"] == "no-store"
        members = {name: refused[name] for name in ("reason", "law", "until")}
        until_text = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(end))
        assert members == {"reason": "court-order", "law": "DSA Art. 9", "until": until_text}
        sentence = "hidden on this server by its operator (court-order, DSA Art. 9): by order of a court"
        assert refused["detail"].endswith(sentence)
        assert state_hash(context.store, chain, height) == before
        await until_listed(client, TOWER, listed=False)
        hide(context.store.primary, decision(Subject.ID, TOWER, until=int(time.time()) + 1))
        await until_listed(client, TOWER, listed=True)
        feed = await get(client, f"/v1/changes?since={last}")
        changes = [(change["id"], change["op"]) for change in feed["changes"] if change["reason"] == "hidden"]
        assert (changes[0], changes[-1]) == ((TOWER, "remove"), (TOWER, "upsert"))
        assert (await get(client, f"/v1/listings/{TOWER}"))["id"] == TOWER
        assert context.store.hidden.decisions() == ()


@pytest.mark.parametrize("subject", [Subject.OWNER, Subject.SHA256])
async def test_what_an_owner_has_and_every_listing_of_a_card_are_hidden(tmp_path: Path, subject: Subject) -> None:
    async with sample(tmp_path) as (context, client):
        hidden = hidden_of(context, TOWER)
        value = hidden.owner if subject is Subject.OWNER else hidden.sha256
        of_subject = {
            id_
            for id_ in [key for _, _, key in context.store.registrations.by_age(None, 1_000)]
            if value in (hidden_of(context, id_).owner, hidden_of(context, id_).sha256)
        }
        hide(context.store.primary, decision(subject, value))
        for id_ in of_subject:
            await until_listed(client, id_, listed=False)
            await get(client, f"/v1/listings/{id_}/history", 451)
        assert unhide(context.store.primary, subject, value)
        for id_ in of_subject:
            await until_listed(client, id_, listed=True)
            await get(client, f"/v1/listings/{id_}/history")
        assert not unhide(context.store.primary, subject, value)


async def test_overlays_hear_the_txid_and_not_the_transaction(tmp_path: Path) -> None:
    async with sample(tmp_path) as (context, client):
        hidden = hidden_of(context, TOWER)
        (block,) = (row for row in context.store.history.of(TOWER) if row.event.txid[::-1].hex() == hidden.txid)
        topic = {"X-BSV-Topic": "tm_agent_registry"}
        admitted = {"blockHeight": block.height}
        listed = await post(client, "/requestAdmittedList", admitted, **topic)
        outputs = await post(client, "/requestSyncResponse", {"version": 1, "since": 0}, **topic)
        txid = context.store.history.of(TOWER)[-1].event.state.outpoint.txid[::-1].hex()  # type: ignore[union-attr]
        assert txid in {output["txid"] for output in outputs["UTXOList"]}
        hide(context.store.primary, decision(Subject.ID, TOWER))
        assert await post(client, "/requestAdmittedList", admitted, **topic) == listed
        delivered = await post(client, "/requestRawTransactions", {"txids": [hidden.txid]}, **topic)
        assert delivered == {"transactions": [], "missing": [hidden.txid]}
        outputs = await post(client, "/requestSyncResponse", {"version": 1, "since": 0}, **topic)
        assert txid not in {output["txid"] for output in outputs["UTXOList"]}
        node = {"txid": txid, "graphID": f"{txid}.0", "outputIndex": 0}
        await post(client, "/requestForeignGASPNode", node, 400)
        looked_up = await post(client, "/lookup", {"service": "ls_agent_registry", "query": {"id": TOWER}})
        assert looked_up["outputs"] == []


async def test_every_protocol_says_that_it_is_hidden(tmp_path: Path) -> None:
    async with sample(tmp_path) as (context, client):
        hide(context.store.primary, decision(Subject.ID, TOWER))
        call = {"name": "get", "arguments": {"id": TOWER}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
        answer = await post(client, "/mcp", message, Accept="application/json, text/event-stream")
        assert answer["result"]["isError"]
        assert "hidden on this server" in answer["result"]["content"][0]["text"]
        for path in (f"/agents/{TOWER}", f"/mrp/manifest/{TOWER}", f"/v1/quote?id={TOWER}"):
            assert "hidden on this server" in json.dumps(await get(client, path, 451)), path
        async with client.get(raw(f"/listings/{TOWER}"), headers={"Accept": "text/html"}) as page:
            assert (page.status, "blocked-by" in page.headers["Link"]) == (451, True)


def test_an_operator_hides_by_command(run: Run, tmp_path: Path) -> None:
    arguments = ("--data", index(tmp_path / "data"))
    assert run("hidden", *arguments).out == "nothing is hidden\n"
    assert run("hide", "0" * 64 + "_0", "--reason", "fraud", *arguments).code == 1
    assert run("hide", TOWER, "--reason", "fraud", "--until", "2001-01-01", *arguments).code == 2
    assert run("hide", "--sha256", "x", "--reason", "fraud", *arguments).code == 2
    done = run("hide", TOWER, "--reason", "copyright", "--law", "17 U.S.C. 512", *arguments)
    assert (done.code, done.out) == (0, f"id {TOWER} is hidden\n")
    shown = json.loads(run("hidden", "--json", *arguments).out)
    assert [(row["value"], row["reason"], row["law"]) for row in shown] == [(TOWER, "copyright", "17 U.S.C. 512")]
    for command in ("show", "verify"):
        refused = run(command, TOWER, *arguments)
        assert (refused.code, "hidden on this server by its operator (copyright" in refused.err) == (1, True), command
    assert run("unhide", TOWER, *arguments).code == 0
    assert run("unhide", TOWER, *arguments).code == 1
    assert run("show", TOWER, *arguments).code == 0


async def test_the_operator_may_publish_hashes_of_hidden_cards(tmp_path: Path) -> None:
    context = built(tmp_path, SAMPLE, hide_publish="on")
    async with serving(context) as client:
        assert (await get(client, "/v1/hidden"))["entries"] == []
        hidden = hidden_of(context, TOWER)
        hide(context.store.primary, decision(Subject.ID, TOWER))
        hide(context.store.primary, decision(Subject.SHA256, "ab" * 32, reason=HideReason.ILLEGAL_CONTENT))
        hide(
            context.store.primary, decision(Subject.SHA256, "cd" * 32, reason=HideReason.MALWARE, since=7, until=2**33)
        )
        answer = await get(client, "/v1/hidden")
        entries = {entry["cardSha256"]: entry for entry in answer["entries"]}
        assert entries.keys() == {hidden.sha256, "cd" * 32}
        assert hidden.id not in json.dumps(answer)
        fits(answer, "Hidden")
        key = Ed25519PublicKey.from_public_bytes(urlsafe_b64decode(answer["publicKey"] + "="))
        for entry in entries.values():
            signature = urlsafe_b64decode(entry.pop("signature") + "==")
            key.verify(signature, jcs(entry))
        assert entries["cd" * 32] == {
            "cardSha256": "cd" * 32, "reason": "malware", "law": "DSA Art. 9", "since": "1970-01-01T00:00:07Z",
            "until": "2242-03-16T12:56:32Z",
        }  # fmt: skip
