"""Look-ups by ids, hosts and packages, over a real server: the search, a listing's address, the page, the trace."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest_asyncio
from aiohttp import ClientSession

from tests.chainkit import ChainKit, agent
from tests.chainkit_scripts import p2pkh
from tests.fakes import MemoryChain
from tests.overlay.calls import get
from tests.serving import new_app, serving

HTML = {"Accept": "text/html"}


class PastedIds(NamedTuple):
    """A client, and the outpoints of an agent: its first, that of its update, that of its last move; a transaction with
    two agents; a tool."""

    session: ClientSession
    first: str
    updated: str
    moved: str
    pair: str
    tool: str


@pytest_asyncio.fixture
async def pasted(tmp_path: Path) -> AsyncIterator[PastedIds]:
    kit = ChainKit()
    first = kit.inscribe(agent("Paste Me", url="https://paste.example/a"))
    updated = kit.update(first, agent("Paste Me", url="https://paste.example/b"))
    moved = kit.move(updated)
    one, other = kit.inscribe(agent("One")), kit.inscribe(agent("Other"))
    joint = kit.spend([one, other], [(1, p2pkh("alice")), (1, p2pkh("alice"))])
    entry = {"description": "Weather", "command": "npx", "args": ["-y", "@quillstead/sky-mcp@1.2.3"]}
    tool = kit.inscribe({"mcpServers": {"forecast-desk": entry}}, type="a2b-mcp")
    kit.mine(first, updated, moved, one, other, joint, tool, kit.point("xn--r8jz45g.example"))
    chain = MemoryChain()
    chain.arrive(*kit.blocks)
    async with serving(new_app(tmp_path, chain)) as session:
        yield PastedIds(session, str(first), str(updated), str(moved), joint.hex_id, str(tool))


async def answer(session: ClientSession, path: str, **headers: str) -> tuple[int, str, Any]:
    async with session.get(path, allow_redirects=False, headers=headers) as response:
        is_json = "json" in response.content_type
        return (
            response.status,
            response.headers.get("Location", ""),
            await (response.json() if is_json else response.text()),
        )


async def by(session: ClientSession, text: str) -> tuple[list[str], str]:
    page = await get(session, f"/v1/search?q={quote(text, safe='')}")
    details = [note["detail"] for note in page.get("notes", ()) if note["code"] == "looked-up"]
    return [item["id"] for item in page["items"]], "".join(details).partition(";")[0]


async def test_the_search_finds_a_listing_by_what_names_it(pasted: PastedIds) -> None:
    owner = (await get(pasted.session, f"/v1/listings/{pasted.first}"))["owner"]
    assert await by(pasted.session, pasted.first) == ([pasted.first], "the results matched by id")
    assert await by(pasted.session, f"ord://{pasted.updated}") == ([pasted.first], "the results matched by outpoint")
    assert await by(pasted.session, pasted.moved[:64]) == ([pasted.first], "the results matched by transaction")
    assert await by(pasted.session, "paste.example") == ([pasted.first], "the results matched by host")
    assert pasted.first in (await by(pasted.session, owner))[0]
    assert await by(pasted.session, "@quillstead/sky-mcp") == ([pasted.tool], "the results matched by package")
    for words in ("quillstead", "sky mcp"):
        assert await by(pasted.session, words) == ([pasted.tool], "")
    _, _, page = await answer(pasted.session, f"/?q={quote(pasted.moved)}", **HTML)
    assert f"/listings/{pasted.first}" in page
    assert "matched by outpoint" in page


async def test_a_txid_and_an_outpoint_lead_to_the_listing(pasted: PastedIds) -> None:
    for name in (pasted.moved, pasted.moved[:64], pasted.updated[:64], pasted.first[:64], f"ord://{pasted.updated}"):
        status, location, _ = await answer(pasted.session, f"/v1/listings/{quote(name, safe='')}")
        assert (status, location) == (303, f"/v1/listings/{pasted.first}"), name
        status, location, _ = await answer(pasted.session, f"/listings/{quote(name, safe='')}", **HTML)
        assert (status, location) == (303, f"/listings/{pasted.first}")
        assert (await get(pasted.session, f"/v1/listings/{quote(name, safe='')}"))["id"] == pasted.first
    status, _, ids = await answer(pasted.session, f"/v1/listings/{pasted.pair}")
    assert (status, len(ids["ids"])) == (200, 2)
    assert (await answer(pasted.session, f"/v1/listings/{'00' * 32}"))[0] == 404
    for form in (f"ord://{pasted.first}", pasted.first.replace("_", ":"), pasted.first.replace("_", "i")):
        assert (await get(pasted.session, f"/v1/listings/{quote(form, safe='')}"))["id"] == pasted.first


async def test_a_domain_in_another_spelling_leads_to_its_pointers(pasted: PastedIds) -> None:
    for name in ("XN--R8JZ45G.example", "例え.example"):
        status, location, _ = await answer(pasted.session, f"/v1/listings/{quote(name, safe='')}")
        assert (status, location) == (303, "/v1/listings/xn--r8jz45g.example"), name
    for name in ("xn--r8jz45g.example", "例え例え.example", "例え .example", "x" * 300 + ".example"):
        assert (await answer(pasted.session, f"/v1/listings/{quote(name, safe='')}"))[0] == 404, name


async def test_the_trace_of_any_transaction_says_what_the_listing_is_now(pasted: PastedIds) -> None:
    for name in (pasted.first, pasted.updated[:64], f"ord://{pasted.moved}"):
        (now,) = (await get(pasted.session, f"/v1/diagnose/{quote(name, safe='')}"))["now"]
        assert (now["id"], now["status"]) == (pasted.first, "live")
        assert (now["outpoint"], now["cardOutpoint"]) == (pasted.moved, pasted.updated)
        status, _, _ = await answer(pasted.session, f"/publish?tx={quote(name, safe='')}", **HTML)
        assert status == 200
    assert len((await get(pasted.session, f"/v1/diagnose/{pasted.pair}"))["now"]) == 2
