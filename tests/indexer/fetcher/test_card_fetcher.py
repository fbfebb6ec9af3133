"""Cards of hosts and of IPFS: which file counts, what meets a hash, and what is said of everything else."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator
from threading import Thread
from typing import Any

import pytest
import trustme
from aiohttp import web

from indexer.fetcher.card_fetcher import CardFetch, CardFetcher, CardRequest, CardState, PriorResponse
from indexer.fetcher.connections import tls_context
from indexer.fetcher.dns import THREADS, SystemResolver, table
from indexer.fetcher.gateway import Gateway
from indexer.fetcher.http_fetcher import HttpFetcher, Validators
from indexer.fetcher.limits import USER_AGENT
from indexer.fetcher.reasons import FetchError
from parsers.pointers.cid import DAG_PB, Cid
from parsers.pointers.locator import Locator
from tests.clocks import Clock
from tests.hostile import PUBLIC, QUICK, Hostile, Net, answer, authority, net, ok, raw, redirect, server, silent
from tests.parsers.pointers.test_cid import CARD as IPFS_CARD
from tests.parsers.pointers.test_cid import VECTORS, piece
from tests.pointer_facts import digest
from tests.waiting import PATIENCE, stop

ANYTHING = CardRequest(hashless=True)

FIRST, SECOND = "/.well-known/agent.json", "/.well-known/agent-card.json"
URL = f"https://agent.example{FIRST}"
CARD = b'{"name": "Tower-Guard",\r\n "url": "https://agent.example/"} \n'
OTHER = b'{"name": "Other"}'

__all__ = ["authority", "net", "server"]


def body_of(fetched: CardFetch) -> bytes | None:
    """The bytes that were accepted, if any were."""
    return fetched.accepted.body if fetched.accepted else None


def by_of(fetched: CardFetch) -> str:
    """The way in which the anchor was met."""
    return fetched.accepted.by if fetched.accepted else ""


def only(body: bytes) -> CardRequest:
    return CardRequest((digest(body),))


# -- one request


async def test_a_request_names_its_client_and_carries_nothing_else(server: Hostile, net: Net) -> None:
    server.say(FIRST, ok(CARD, "Set-Cookie: id=1; Path=/", "Set-Cookie: other=2"))
    async with net.fetcher().visit() as visit:
        for _ in range(2):
            assert (await visit.get(URL)).body == CARD
    robots, first, second = server.requests
    assert robots.path == "/robots.txt"
    assert first.headers == second.headers
    assert first.headers["host"] == "agent.example"
    assert first.headers["user-agent"] == USER_AGENT
    assert first.headers["accept-encoding"] == "identity"
    assert first.headers.keys() == {"host", "user-agent", "accept", "accept-encoding"}
    assert server.sni == ["agent.example"]
    assert net.dialled == [(PUBLIC, 443)]


async def test_proxies_of_the_environment_are_ignored(
    server: Hostile, net: Net, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    server.say(FIRST, ok(CARD))
    assert (await net.fetcher().get(URL)).body == CARD


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("gzip", gzip.compress(CARD, mtime=0)),
        ("X-Gzip", gzip.compress(CARD, mtime=0)),
        ("identity", CARD),
    ],
)
async def test_a_coding_that_was_not_requested_is_undone(name: str, body: bytes, server: Hostile, net: Net) -> None:
    server.say(FIRST, ok(body, f"Content-Encoding: {name}"))
    assert (await net.fetcher().get(URL)).body == CARD


async def test_a_name_in_its_own_script_is_requested_by_its_a_label(server: Hostile, net: Net) -> None:
    server.say("/x", ok(CARD))
    assert (await net.fetcher().get("https://B\u00fccher.example/x")).url == "https://xn--bcher-kva.example/x"
    assert net.looked_up == ["xn--bcher-kva.example"]
    assert server.sni == ["xn--bcher-kva.example"]


async def test_a_fetch_is_conditional_where_the_same_url_answers(server: Hostile, net: Net) -> None:
    server.say(FIRST, ok(CARD, 'ETag: "1"', "Last-Modified: Thu, 01 Jan 2026 00:00:00 GMT"))
    fetcher = net.fetcher()
    validators = (await fetcher.get(URL)).validators
    assert validators == Validators(URL, '"1"', "Thu, 01 Jan 2026 00:00:00 GMT")
    server.say(FIRST, raw(b'HTTP/1.1 304 Not Modified\r\nETag: "2"\r\n\r\n'))
    body = await fetcher.get(URL, validators)
    assert body.body is None
    assert body.validators == Validators(URL, '"2"', "Thu, 01 Jan 2026 00:00:00 GMT")
    headers = server.requests[-1].headers
    assert (headers["if-none-match"], headers["if-modified-since"]) == ('"1"', "Thu, 01 Jan 2026 00:00:00 GMT")
    server.say(FIRST, redirect("/moved"))
    server.say("/moved", raw(b"HTTP/1.1 304 Not Modified\r\n\r\n"))
    with pytest.raises(FetchError, match="status 304"):
        await fetcher.get(URL, validators)
    assert "if-none-match" not in server.requests[-1].headers


async def test_a_validator_that_could_break_a_request_is_forgotten(server: Hostile, net: Net) -> None:
    server.say(FIRST, ok(CARD, f'ETag: "{"x" * 600}"'))
    assert not (await net.fetcher().get(URL)).validators


async def test_an_opt_out_is_heeded_for_a_day(server: Hostile, net: Net) -> None:
    clock = Clock()
    fetcher = net.fetcher(clock=clock)
    server.say("/robots.txt", ok(b"User-agent: a2b-registry\nDisallow: /\n"))
    server.say(FIRST, ok(CARD))
    for _ in range(2):
        with pytest.raises(FetchError, match=r"robots\.txt"):
            await fetcher.get(URL)
    assert [request.path for request in server.requests] == ["/robots.txt"]
    server.say("/robots.txt", ok(b"User-agent: *\nDisallow: /\n"))
    clock.now += 86_401
    assert (await fetcher.get(URL)).body == CARD


async def test_the_host_that_a_redirect_leads_to_can_opt_out_too(server: Hostile, net: Net) -> None:
    fetcher = net.fetcher()
    server.say(FIRST, redirect("https://other.example/victim"))
    server.say("/victim", ok(CARD))
    assert (await fetcher.get(URL)).body == CARD
    server.say("/robots.txt", ok(b"User-agent: a2b-registry\nDisallow: /victim\n"))
    fetcher.opt_outs.clear()
    with pytest.raises(FetchError, match="disallows a2b-registry to fetch /victim"):
        await fetcher.get(URL)


@pytest.mark.parametrize("what", ["html", "fault", "redirect", "bomb"])
async def test_a_robots_that_is_none_is_no_opt_out(what: str, server: Hostile, net: Net) -> None:
    behaviours = {
        "html": ok(b"<html>Disallow: /"),
        "fault": raw(answer("500 Oops", b"User-agent: a2b-registry\nDisallow: /")),
        "redirect": redirect("https://other.example/robots.txt"),
        "bomb": ok(gzip.compress(b"x" * 1_000_000), "Content-Encoding: gzip"),
    }
    server.say("/robots.txt", behaviours[what])
    server.say(FIRST, ok(CARD))
    assert (await net.fetcher().get(URL)).body == CARD


async def test_the_operators_table_reaches_other_addresses_and_ports_and_http(authority: trustme.CA, net: Net) -> None:
    async with Hostile(authority) as tls, Hostile(authority, tls=False) as plain:
        entries = table(
            f"agent.example:443=127.0.0.1:{tls.port} agent.example:8443=127.0.0.1:{tls.port} "
            f"agent.example:80=127.0.0.1:{plain.port}"
        )
        resolver = SystemResolver()
        fetcher = HttpFetcher(resolver, net.tls, entries, QUICK)
        tls.say("/tls", ok(b"tls"))
        plain.say("/plain", ok(b"plain"))
        assert (await fetcher.get("https://agent.example/tls")).address == "127.0.0.1"
        assert (await fetcher.get("https://agent.example:8443/tls")).url == "https://agent.example:8443/tls"
        assert tls.requests[-1].headers["host"] == "agent.example:8443"
        assert (await fetcher.get("http://agent.example/plain")).body == b"plain"
        plain.say("/plain", redirect("http://other.example/plain"))
        with pytest.raises(FetchError, match="only https"):
            await fetcher.get("http://agent.example/plain")


async def test_the_system_resolver_gets_the_whole_name(net: Net, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[str] = []

    def look_up(host: str, *_: object, **__: object) -> list[tuple[Any, ...]]:
        requests.append(host)
        return [(None, None, None, "", ("127.0.0.1", 443)), (None, None, None, "", ("::1", 443, 0, 0))]

    monkeypatch.setattr("socket.getaddrinfo", look_up)
    resolver = SystemResolver()
    fetcher = HttpFetcher(resolver, net.tls, limits=QUICK, dial=net.dial)
    with pytest.raises(FetchError, match="loopback"):
        await fetcher.get(URL)
    assert requests == ["agent.example."]
    assert net.dialled == []


async def test_the_system_resolver_says_when_there_is_no_such_name(net: Net) -> None:
    resolver = SystemResolver()
    fetcher = HttpFetcher(resolver, net.tls, dial=net.dial)
    with pytest.raises(FetchError, match="resolve"):
        await fetcher.get("https://nobody.invalid/")
    assert net.dialled == []


async def test_names_are_resolved_again_once_the_system_allows_threads_again(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Thread) -> None:
        raise RuntimeError("can't start new thread")

    resolver = SystemResolver()
    with monkeypatch.context() as full:
        full.setattr(Thread, "start", refuse)
        for _ in range(THREADS + 1):
            with pytest.raises(OSError, match="can't start new thread"):
                await asyncio.wait_for(resolver.resolve("agent.example"), PATIENCE)
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: [(None, None, None, "", ("127.0.0.1", 443))])
    assert await asyncio.wait_for(resolver.resolve("agent.example"), PATIENCE) == ["127.0.0.1"]


async def test_an_authority_of_the_operators_is_trusted_beside_the_worlds(authority: trustme.CA, tmp_path: Any) -> None:
    path = tmp_path / "ca.pem"
    authority.cert_pem.write_to_path(str(path))
    assert tls_context(str(path)).cert_store_stats()["x509_ca"] == tls_context().cert_store_stats()["x509_ca"] + 1
    path.write_text("nonsense")
    with pytest.raises(OSError, match=r"certificate|PEM|CERT"):
        tls_context(str(path))


async def test_what_a_host_asks_to_wait_is_passed_on(server: Hostile, net: Net) -> None:
    for text, expected in (("30", 30.0), ("Thu, 01 Jan 1970 01:00:00 GMT", 2_600.0), ("9" * 40, 86_400.0), ("x", None)):
        server.say(FIRST, raw(answer("429 Slow Down", b"", f"Retry-After: {text}")))
        with pytest.raises(FetchError) as caught:
            await net.fetcher(clock=Clock()).get(URL)
        assert caught.value.retry_after == expected


# -- a card


async def test_a_card_is_met_by_its_raw_bytes(server: Hostile, net: Net) -> None:
    clock = Clock()
    server.say(FIRST, ok(CARD, 'ETag: "1"'))
    result = await CardFetcher(net.fetcher(), clock=clock).fetch_card("agent.example", only(CARD))
    assert (result.state, body_of(result), by_of(result), result.refusal) == (CardState.MET, CARD, "sha256", None)
    accepted = result.accepted
    assert accepted is not None
    assert (accepted.url, accepted.final_url, accepted.address) == (URL, URL, PUBLIC)
    assert (accepted.digest, accepted.size) == (digest(CARD), len(CARD))
    assert accepted.validators == Validators(URL, '"1"')
    assert (result.begun, accepted.ended) == (1_000.0, 1_000.0)


@pytest.mark.parametrize("first", [raw(answer("404 Not Found")), ok(OTHER), ok(b"<html>"), redirect(FIRST), ok(b"x" * 20_001)])  # fmt: skip  # noqa: E501
async def test_the_second_name_counts_where_the_first_is_not_the_card(first: Any, server: Hostile, net: Net) -> None:
    server.say(FIRST, first)
    server.say(SECOND, ok(CARD))
    result = await CardFetcher(net.fetcher()).fetch_card("agent.example", only(CARD))
    assert (result.state, body_of(result)) == (CardState.MET, CARD)
    assert result.accepted is not None
    assert result.accepted.url == f"https://agent.example{SECOND}"
    assert result.attempts[0].refusal is not None


async def test_other_bytes_are_never_accepted(server: Hostile, net: Net) -> None:
    server.say(FIRST, ok(OTHER))
    result = await CardFetcher(net.fetcher()).fetch_card("agent.example", only(CARD))
    assert (result.state, body_of(result), result.accepted) == (CardState.MISMATCH, None, None)
    difference = f"{digest(OTHER).hex()}, and the newest pointer names {digest(CARD).hex()}"
    assert result.refusal == ("fetch-mismatch", difference)
    assert [item.digest for item in result.served] == [digest(OTHER)]
    assert server.paths() == [FIRST, SECOND]


async def test_one_byte_more_is_another_card(server: Hostile, net: Net) -> None:
    server.say(FIRST, ok(CARD + b"\n"))
    assert (await CardFetcher(net.fetcher()).fetch_card("agent.example", only(CARD))).state is CardState.MISMATCH


async def test_a_web_page_in_place_of_the_card_is_named(server: Hostile, net: Net) -> None:
    server.say(FIRST, ok(b"\n<!doctype html>"))
    result = await CardFetcher(net.fetcher()).fetch_card("agent.example", only(CARD))
    assert result.state is CardState.MISMATCH
    assert result.refusal is not None
    assert result.refusal.code == "fetch-html"


async def test_without_a_hash_a_card_is_unhashed(server: Hostile, net: Net) -> None:
    server.say(FIRST, ok(b"<html>front page</html>"))
    server.say(SECOND, ok(CARD))
    result = await CardFetcher(net.fetcher()).fetch_card("agent.example", ANYTHING)
    assert (result.state, body_of(result), by_of(result)) == (CardState.UNHASHED, CARD, "")
    server.say(SECOND, ok(b"<html>front page</html>"))
    result = await CardFetcher(net.fetcher()).fetch_card("agent.example", ANYTHING)
    assert result.state is CardState.FAILED
    assert result.refusal == ("fetch-not-json", "")


async def test_only_a_uri_itself_is_requested(server: Hostile, net: Net) -> None:
    server.say("/cards/1.json?x=y", ok(CARD))
    cards = CardFetcher(net.fetcher())
    result = await cards.fetch_card("https://agent.example/cards/1.json?x=y", only(CARD))
    assert result.state is CardState.MET
    result = await cards.fetch_card("https://agent.example/cards/2.json", only(CARD))
    assert result.refusal == ("fetch-missing", "404")
    assert server.paths() == ["/cards/1.json?x=y", "/cards/2.json"]


async def test_a_host_in_trouble_gets_no_second_request(server: Hostile, net: Net) -> None:
    server.say(FIRST, silent)
    result = await CardFetcher(net.fetcher()).fetch_card("agent.example", only(CARD))
    assert result.state is CardState.FAILED
    assert result.refusal is not None
    assert result.refusal.code == "fetch-first-byte"
    assert result.error is not None
    assert server.paths() == [FIRST]


async def test_a_refused_name_gets_no_request(server: Hostile, net: Net) -> None:
    result = await CardFetcher(net.fetcher()).fetch_card("localhost", ANYTHING)
    assert result.refusal is not None
    assert result.refusal.final
    assert server.connections == 0


async def test_what_is_unmodified_was_accepted_before_and_meets_nothing_new(server: Hostile, net: Net) -> None:
    server.say(FIRST, raw(b"HTTP/1.1 304 Not Modified\r\n\r\n"))
    cards = CardFetcher(net.fetcher())
    existing = {URL: PriorResponse(digest(CARD), Validators(URL, '"1"'))}
    result = await cards.fetch_card("agent.example", only(CARD), existing)
    assert (result.state, body_of(result), by_of(result)) == (CardState.UNCHANGED, None, "sha256")
    result = await cards.fetch_card("agent.example", only(OTHER), existing)
    assert result.state is CardState.MISMATCH
    difference = f"{digest(CARD).hex()}, and the newest pointer names {digest(OTHER).hex()}"
    assert result.refusal == ("fetch-mismatch", difference)


async def test_what_drifted_says_what_is_served_now(server: Hostile, net: Net) -> None:
    server.say(FIRST, ok(OTHER, 'ETag: "2"'))
    existing = {URL: PriorResponse(digest(CARD), Validators(URL, '"1"'))}
    result = await CardFetcher(net.fetcher()).fetch_card("agent.example", only(CARD), existing)
    assert result.state is CardState.MISMATCH
    [served] = result.served
    assert (served.digest, served.validators) == (digest(OTHER), Validators(URL, '"2"'))


async def test_of_both_files_the_one_that_the_newest_anchor_names_counts(server: Hostile, net: Net) -> None:
    """An older anchor may name agent.json, and the newest agent-card.json: then both are facts."""
    server.say(FIRST, ok(OTHER))
    server.say(SECOND, ok(CARD))
    cards = CardFetcher(net.fetcher())
    result = await cards.fetch_card("agent.example", CardRequest((digest(CARD), digest(OTHER))))
    assert (result.state, body_of(result)) == (CardState.MET, CARD)
    assert [item.digest for item in result.served] == [digest(CARD), digest(OTHER)]
    assert all(item.state is CardState.MET for item in result.served)
    server.requests.clear()
    result = await cards.fetch_card("agent.example", CardRequest((digest(OTHER), digest(CARD))))
    assert body_of(result) == OTHER
    assert server.paths() == [FIRST]


async def test_a_met_hash_counts_before_a_card_that_nobody_names(server: Hostile, net: Net) -> None:
    server.say(FIRST, ok(OTHER))
    server.say(SECOND, ok(CARD))
    result = await CardFetcher(net.fetcher()).fetch_card("agent.example", CardRequest((digest(CARD),), hashless=True))
    assert (result.state, by_of(result), body_of(result)) == (CardState.MET, "sha256", CARD)
    assert [attempt.state for attempt in result.attempts] == [CardState.UNHASHED, CardState.MET]


async def test_a_hash_after_many_wrong_ones_is_met(server: Hostile, net: Net) -> None:
    async def more(data: bytes) -> bool:
        return data == digest(CARD)

    server.say(FIRST, ok(CARD))
    request = CardRequest(tuple(digest(b"%d" % number) for number in range(16)), more=more)
    assert (await CardFetcher(net.fetcher()).fetch_card("agent.example", request)).state is CardState.MET
    server.say(FIRST, ok(OTHER))
    assert (await CardFetcher(net.fetcher()).fetch_card("agent.example", request)).state is CardState.MISMATCH


# -- IPFS


class Blocks:
    """A gateway of the blocks in the vectors; `swap` makes it serve one block for another."""

    def __init__(self) -> None:
        self.swap: dict[str, bytes] = {}
        self.requests: list[str] = []
        self.plain: dict[str, bytes] = {}

    async def serve(self, request: web.Request) -> web.Response:
        self.requests.append(request.path_qs)
        path = request.match_info["path"]
        if request.query.get("format") != "raw":
            body = self.plain.get(path)
            return web.Response(status=404) if body is None else web.Response(body=body)
        vector = next((item for item in VECTORS.values() if item.base32 == path), None)
        body = self.swap.get(path, bytes.fromhex(vector.block) if vector else None)
        return web.Response(status=404) if body is None else web.Response(body=body)


@pytest.fixture
async def blocks() -> AsyncIterator[tuple[Blocks, Gateway]]:
    served = Blocks()
    application = web.Application()
    application.router.add_get("/ipfs/{path:.+}", served.serve)
    runner = web.AppRunner(application, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield served, Gateway(f"http://127.0.0.1:{runner.addresses[0][1]}", QUICK)
    await stop(runner)


def cards(gateway: Gateway | None, net: Net) -> CardFetcher:
    return CardFetcher(net.fetcher(), gateway)


@pytest.mark.parametrize(
    "path",
    [
        VECTORS["raw"].base32,
        VECTORS["raw"].base58,
        VECTORS["file"].v0,
        VECTORS["file"].base36,
        VECTORS["rawnode"].base16,
        f"{VECTORS['dir'].v0}/agent.json",
        f"{VECTORS['dir'].base32}/v0.json",
    ],
)
async def test_a_card_on_ipfs_is_met_by_its_cid(path: str, blocks: tuple[Blocks, Gateway], net: Net) -> None:
    result = await cards(blocks[1], net).fetch_card(f"ipfs://{path}", ANYTHING)
    assert (result.state, by_of(result), body_of(result)) == (CardState.MET, "cid", IPFS_CARD)
    assert net.dialled == []


async def test_a_hash_beside_a_cid_must_be_met_too(blocks: tuple[Blocks, Gateway], net: Net) -> None:
    uri = f"ipfs://{VECTORS['file'].v0}"
    assert by_of(await cards(blocks[1], net).fetch_card(uri, only(IPFS_CARD))) == "sha256"
    result = await cards(blocks[1], net).fetch_card(uri, only(CARD))
    assert (result.state, body_of(result)) == (CardState.MISMATCH, None)


@pytest.mark.parametrize("name", ["raw", "file"])
async def test_false_bytes_of_a_gateway_are_refused(name: str, blocks: tuple[Blocks, Gateway], net: Net) -> None:
    served, gateway = blocks
    served.swap[VECTORS[name].base32] = bytes.fromhex(VECTORS["empty"].block)
    result = await cards(gateway, net).fetch_card(f"ipfs://{VECTORS[name].base32}", ANYTHING)
    assert result.state is CardState.FAILED
    assert result.refusal is not None
    assert result.refusal.code == "fetch-cid"


async def test_a_false_directory_of_a_gateway_is_refused(blocks: tuple[Blocks, Gateway], net: Net) -> None:
    served, gateway = blocks
    served.swap[VECTORS["dir"].base32] = bytes.fromhex(VECTORS["emptydir"].block)
    result = await cards(gateway, net).fetch_card(f"ipfs://{VECTORS['dir'].v0}/agent.json", ANYTHING)
    assert result.refusal is not None
    assert result.refusal.code == "fetch-cid"


@pytest.mark.parametrize("name", ["many", "sharded"])
async def test_a_file_of_several_blocks_is_unhashed(name: str, blocks: tuple[Blocks, Gateway], net: Net) -> None:
    served, gateway = blocks
    root = VECTORS[name].base32
    served.plain[root] = IPFS_CARD
    result = await cards(gateway, net).fetch_card(f"ipfs://{root}", ANYTHING)
    assert (result.state, by_of(result), body_of(result)) == (CardState.UNHASHED, "", IPFS_CARD)
    assert by_of(await cards(gateway, net).fetch_card(f"ipfs://{root}", only(IPFS_CARD))) == "sha256"


@pytest.mark.parametrize(
    ("uri", "code"),
    [
        (f"ipfs://{VECTORS['dir'].v0}", "fetch-missing"),
        (f"ipfs://{VECTORS['dir'].v0}/other.json", "fetch-missing"),
        (f"ipfs://{VECTORS['file'].v0}/agent.json", "fetch-missing"),
        (f"ipfs://{VECTORS['symlink'].v0}", "fetch-missing"),
        ("ipfs://QmYwAPJzv5CZsnA625s3Xf2nemtYgPpHdWEz79ojWnPbdG", "fetch-missing"),
        (f"ipfs://{VECTORS['dir'].v0}/{'x/' * 9}", "fetch-url"),
        ("ipfs://nonsense", "fetch-url"),
    ],
)
async def test_what_is_no_file_on_ipfs_is_named(uri: str, code: str, blocks: tuple[Blocks, Gateway], net: Net) -> None:
    result = await cards(blocks[1], net).fetch_card(uri, ANYTHING)
    assert result.refusal is not None
    assert result.refusal.code == code


@pytest.mark.parametrize("path", ["../../admin", "%2e%2e/%2E%2e/admin", "a%5c..%5cadmin"])
async def test_paths_outside_the_cid_are_never_requested_of_a_gateway(
    path: str, blocks: tuple[Blocks, Gateway], net: Net, monkeypatch: pytest.MonkeyPatch
) -> None:
    served, gateway = blocks
    uri = f"ipfs://{VECTORS['many'].v0}/{path}"
    for _ in ("refused as a locator", "and again where an older version had stored it as one"):
        result = await cards(gateway, net).fetch_card(uri, ANYTHING)
        assert result.refusal is not None
        assert result.refusal.code == "fetch-url"
        assert not [query for query in served.requests if "admin" in query]
        monkeypatch.setattr("indexer.fetcher.gateway.locate", lambda uri: Locator(uri, ""))


async def test_a_gateway_in_trouble_is_named(blocks: tuple[Blocks, Gateway], net: Net, authority: trustme.CA) -> None:
    for behave, message in ((raw(answer("502 Bad Gateway")), "status 502"), (silent, "not done|Timeout")):
        async with Hostile(authority, tls=False) as broken:
            broken.say(f"/ipfs/{VECTORS['raw'].base32}?format=raw", behave)
            gateway = Gateway(f"http://127.0.0.1:{broken.port}", QUICK)
            result = await cards(gateway, net).fetch_card(f"ipfs://{VECTORS['raw'].base32}", ANYTHING)
        assert result.refusal is not None
        assert result.refusal.code == "fetch-gateway"
        assert any(word in result.refusal.sentence for word in message.split("|"))


async def test_a_link_of_another_kind_is_followed_by_the_gateway_and_unhashed(
    blocks: tuple[Blocks, Gateway], net: Net
) -> None:
    served, gateway = blocks
    link = piece(1, bytes.fromhex("01711220") + bytes(32)) + piece(2, b"card.json")  # dag-cbor
    node = piece(2, link) + piece(1, b"\x08\x01")
    root = Cid(1, DAG_PB, digest(node)).base32
    served.swap[root] = node
    served.plain[f"{root}/card.json"] = IPFS_CARD
    result = await cards(gateway, net).fetch_card(f"ipfs://{root}/card.json", ANYTHING)
    assert (result.state, body_of(result)) == (CardState.UNHASHED, IPFS_CARD)
    other = f"f01711220{'00' * 32}"
    served.plain[other] = IPFS_CARD
    result = await cards(gateway, net).fetch_card(f"ipfs://{other}", ANYTHING)
    assert (result.state, body_of(result)) == (CardState.UNHASHED, IPFS_CARD)


async def test_opt_outs_are_remembered_for_so_many_hosts(
    server: Hostile, net: Net, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("indexer.fetcher.http_fetcher.ROBOTS_KEPT", 1)
    fetcher = net.fetcher()
    server.say("/x", ok(CARD))
    for host in ("agent.example", "other.example"):
        await fetcher.get(f"https://{host}/x")
    assert list(fetcher.opt_outs) == [("https", "other.example", 443)]


async def test_a_missing_or_dead_gateway_is_reported(net: Net) -> None:
    uri = f"ipfs://{VECTORS['file'].v0}"
    result = await cards(None, net).fetch_card(uri, ANYTHING)
    assert result.refusal == ("fetch-no-gateway", "")
    result = await cards(Gateway("http://127.0.0.1:9", QUICK), net).fetch_card(uri, ANYTHING)
    assert result.refusal is not None
    assert result.refusal.code == "fetch-gateway"
