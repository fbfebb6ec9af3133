"""Servers that mean harm: none stalls the fetcher, none leads it elsewhere, and each is named."""

from __future__ import annotations

import asyncio
import gzip
import re
import ssl
import zlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest
import trustme

from indexer.fetcher.dns import table
from indexer.fetcher.http_fetcher import HttpFetcher
from indexer.fetcher.reasons import SENTENCES, FetchError
from tests.hostile import (
    HOSTS,
    PUBLIC,
    QUICK,
    Behave,
    Hostile,
    Net,
    answer,
    authority,
    forever,
    net,
    ok,
    raw,
    redirect,
    reset,
    server,
    silent,
)

CARD = "/.well-known/agent.json"
URL = f"https://agent.example{CARD}"
BLANKS = b" " * 1_000_000

__all__ = ["authority", "net", "server"]


async def refused(fetcher: HttpFetcher, url: str = URL, *, same_host: bool = False) -> str:
    """The code of the refusal; its sentence is complete and printable."""
    with pytest.raises(FetchError) as caught:
        await fetcher.get(url, same_host=same_host)
    assert "{}" not in caught.value.refusal.sentence
    assert str(caught.value).isprintable()
    return caught.value.refusal.code


def coded(name: str, body: bytes) -> Behave:
    return ok(body, f"Content-Encoding: {name}")


def chunked(*chunks: bytes) -> bytes:
    framed = b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in chunks)
    return answer("200 OK", framed, "Transfer-Encoding: chunked", length=False)


BAD_ANSWERS: dict[str, tuple[Behave, str]] = {
    # sizes
    "a body without end": (forever(answer("200 OK", length=False), b"x" * 1_000), "fetch-size"),
    "chunks without end": (forever(chunked(), b"3e8\r\n" + b"x" * 1_000 + b"\r\n"), "fetch-size"),
    "a length beyond the limit": (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 20001\r\n\r\n"), "fetch-size"),
    "a length of twenty digits": (
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n"),
        "fetch-size",
    ),
    "a body one byte too large": (raw(chunked(b"x" * 20_001)), "fetch-size"),
    "a large chunk that drips": (
        forever(answer("200 OK", b"fffff\r\n", "Transfer-Encoding: chunked", length=False), b"x", 0.05),
        "fetch-slow",
    ),
    "chunk extensions without end": (forever(chunked(), b"1;" + b"e" * 4_000 + b"\r\nx\r\n"), "fetch-framing"),
    "chunks of one byte": (raw(chunked(*[b"x"] * 600)), "fetch-framing"),
    "one chunk extension without end": (forever(chunked() + b"1;", b"e" * 4_000), "fetch-framing"),
    "trailers without end": (forever(chunked(b"{}") + b"0\r\n", b"x: y\r\n" * 500), "fetch-framing"),
    "answers before the answer without end": (
        forever(b"", b"HTTP/1.1 103 Early Hints\r\nx: y\r\n\r\n" * 500),
        "fetch-framing",
    ),
    # wrong lengths
    "a body shorter than its length": (
        raw(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{}", close=True),
        "fetch-protocol",
    ),
    "chunks cut short": (
        raw(answer("200 OK", b"5\r\n{}", "Transfer-Encoding: chunked", length=False), close=True),
        "fetch-protocol",
    ),
    "a negative length": (raw(b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}"), "fetch-protocol"),
    "two lengths that differ": (raw(answer("200 OK", b"{}", "Content-Length: 3")), "fetch-protocol"),
    "a chunk size that is not a number": (
        raw(answer("200 OK", b"zz\r\n{}\r\n0\r\n\r\n", "Transfer-Encoding: chunked", length=False)),
        "fetch-protocol",
    ),
    "a chunk size of forty digits": (
        raw(answer("200 OK", b"f" * 40 + b"\r\n", "Transfer-Encoding: chunked", length=False)),
        "fetch-protocol",
    ),
    "a transfer coding nobody knows": (
        raw(answer("200 OK", b"{}", "Transfer-Encoding: gzip", length=False)),
        "fetch-protocol",
    ),
    # headers
    "ten thousand headers": (raw(answer("200 OK", b"{}", *["a: b"] * 10_000)), "fetch-headers"),
    "fifty-two headers": (raw(answer("200 OK", b"{}", *["a: b"] * 51)), "fetch-headers"),
    "one header of 5 kB": (raw(answer("200 OK", b"{}", f"a: {'b' * 5_000}")), "fetch-headers"),
    "one header of 200 kB": (raw(answer("200 OK", b"{}", f"a: {'b' * 200_000}")), "fetch-headers"),
    "headers without end": (forever(b"HTTP/1.1 200 OK\r\n", b"a: b\r\n" * 500), "fetch-headers"),
    "a reason phrase without end": (forever(b"HTTP/1.1 200 ", b"OK " * 500), "fetch-headers"),
    "a header with a zero byte": (raw(b"HTTP/1.1 200 OK\r\na: \0\r\nContent-Length: 2\r\n\r\n{}"), "fetch-protocol"),
    "a header without a name": (raw(b"HTTP/1.1 200 OK\r\n: b\r\nContent-Length: 2\r\n\r\n{}"), "fetch-protocol"),
    # time
    "silence": (silent, "fetch-first-byte"),
    "headers that drip": (forever(b"HTTP/1.1 200 OK\r\na: ", b"b", 0.05), "fetch-first-byte"),
    "a body that drips": (forever(b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n", b"x", 0.05), "fetch-slow"),
    "a body that stops": (forever(b"HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n{", b"", 0.05), "fetch-slow"),
    "early hints that drip": (forever(b"", b"HTTP/1.1 103 Early Hints\r\n\r\n", 0.05), "fetch-first-byte"),
    # not HTTP
    "nothing and goodbye": (raw(b"", close=True), "fetch-protocol"),
    "a reset": (reset, "fetch-protocol"),
    "another protocol": (raw(b"SSH-2.0-OpenSSH_9.6\r\n", close=True), "fetch-protocol"),
    "HTTP without headers": (raw(b'{"name": "x"}', close=True), "fetch-protocol"),
    "HTTP/2 unasked": (raw(b"\0\0\x12\x04\0\0\0\0\0" + bytes(18), close=True), "fetch-protocol"),
    "half a status line": (raw(b"HTTP/1.1 2", close=True), "fetch-protocol"),
    "a status of four digits": (raw(b"HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\n{}"), "fetch-protocol"),
    "another protocol switched to": (
        raw(b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
        "fetch-protocol",
    ),
    # codings
    "a gzip bomb": (coded("gzip", gzip.compress(BLANKS)), "fetch-size"),
    "deflate": (coded("deflate", zlib.compress(b"{}")), "fetch-coding"),
    "gzip that is broken": (coded("gzip", b"\x1f\x8b nonsense"), "fetch-coding"),
    "gzip that is cut short": (coded("gzip", gzip.compress(b"{}" * 50)[:-9]), "fetch-coding"),
    "gzip with more behind": (coded("gzip", gzip.compress(b"{}") + gzip.compress(b"{}")), "fetch-coding"),
    "gzip of gzip": (coded("gzip, gzip", gzip.compress(gzip.compress(b"{}"))), "fetch-coding"),
    "brotli": (coded("br", b"\x0b\x00\x80{}\x03"), "fetch-coding"),
    "a coding nobody knows": (coded("x-\xff", b"{}"), "fetch-coding"),
    # statuses
    "no content": (raw(b"HTTP/1.1 204 No Content\r\n\r\n"), "fetch-status"),
    "a part of it": (raw(answer("206 Partial Content", b"{}")), "fetch-status"),
    "not modified, unasked": (raw(b"HTTP/1.1 304 Not Modified\r\n\r\n"), "fetch-status"),
    "multiple choices": (raw(answer("300 Multiple Choices", b"{}", "Location: /x")), "fetch-status"),
    "a login": (raw(answer("401 Unauthorized", b"", 'WWW-Authenticate: Basic realm="x"')), "fetch-status"),
    "a proxy's login": (raw(answer("407 Proxy Authentication Required")), "fetch-status"),
    "forbidden": (raw(answer("403 Forbidden")), "fetch-status"),
    "nothing there": (raw(answer("404 Not Found", b"<html>")), "fetch-missing"),
    "gone": (raw(answer("410 Gone")), "fetch-missing"),
    "too many requests": (raw(answer("429 Too Many Requests", b"", "Retry-After: 30")), "fetch-busy"),
    "unavailable": (raw(answer("503 Service Unavailable")), "fetch-busy"),
    "a fault": (raw(answer("500 Oops")), "fetch-server"),
}


@pytest.mark.parametrize("what", BAD_ANSWERS)
async def test_a_server_that_answers_with(what: str, server: Hostile, net: Net) -> None:
    behave, code = BAD_ANSWERS[what]
    server.say(CARD, behave)
    assert await refused(net.fetcher()) == code
    assert {address for address, _ in net.dialled} == {PUBLIC}


async def test_a_bomb_is_stopped_by_what_it_expands_to_before_its_size(server: Hostile, net: Net) -> None:
    server.say(CARD, coded("gzip", gzip.compress(BLANKS)))
    wide = QUICK.__class__(body=5_000_000, ratio=20)
    assert await refused(net.fetcher(wide)) == "fetch-ratio"


async def test_the_loop_goes_on_while_servers_stall(server: Hostile, net: Net) -> None:
    server.say(CARD, silent)
    server.say("/good", ok(b'{"name": "x"}'))
    fetcher = net.fetcher(replace(QUICK, first_byte=4.0, total=8.0))
    stalled = [asyncio.create_task(refused(fetcher)) for _ in range(20)]
    body = await fetcher.get("https://other.example/good")
    assert body.body == b'{"name": "x"}'
    assert not any(task.done() for task in stalled)
    assert set(await asyncio.gather(*stalled)) == {"fetch-first-byte"}


BAD_REDIRECTS: dict[str, tuple[str, str]] = {
    "cloud metadata": ("http://169.254.169.254/latest/meta-data/", "fetch-address"),
    "cloud metadata over TLS": ("https://169.254.169.254/", "fetch-address"),
    "cloud metadata on IPv6": ("https://[fd00:ec2::254]/", "fetch-address"),
    "the loopback of IPv6": ("https://[::1]/", "fetch-address"),
    "the loopback of IPv6 in full": ("https://[0:0:0:0:0:0:0:1]/", "fetch-address"),
    "a mapped loopback": ("https://[::ffff:127.0.0.1]/", "fetch-address"),
    "a mapped loopback in hex": ("https://[::ffff:7f00:1]/", "fetch-address"),
    "a compatible loopback": ("https://[::127.0.0.1]/", "fetch-address"),
    "a loopback behind NAT64": ("https://[64:ff9b::7f00:1]/", "fetch-address"),
    "a private address in 6to4": ("https://[2002:a00:1::]/", "fetch-address"),
    "a link-local address with a zone": ("https://[fe80::1%25eth0]/", "fetch-address"),
    "the loopback": ("https://127.0.0.1/", "fetch-address"),
    "no address": ("https://0.0.0.0/", "fetch-address"),
    "a private address": ("https://10.0.0.1/admin", "fetch-address"),
    "a public address": ("https://93.184.216.34/", "fetch-redirect"),
    "the loopback as one number": ("https://2130706433/", "fetch-redirect"),
    "the loopback in hex": ("https://0x7f000001/", "fetch-redirect"),
    "the loopback in octal": ("https://0177.0.0.1/", "fetch-redirect"),
    "the loopback in short": ("https://127.1/", "fetch-redirect"),
    "the loopback with a dot behind": ("https://127.0.0.1./", "fetch-redirect"),
    "the loopback in circled digits": (
        "https://\u2460\u2461\u2466.0.0.1/".encode().decode("latin-1"),
        "fetch-redirect",
    ),
    "a name of one label": ("https://localhost/", "fetch-redirect"),
    "a name with a dot behind": ("https://agent.example./", "fetch-redirect"),
    "a name that IDNA refuses": ("https://-x-.example/", "fetch-redirect"),
    "an empty name": ("https:///x", "fetch-redirect"),
    "plain HTTP": ("http://agent.example/", "fetch-redirect"),
    "another port": ("https://agent.example:8443/", "fetch-redirect"),
    "port 80 with TLS": ("https://agent.example:80/", "fetch-redirect"),
    "port 0": ("https://agent.example:0/", "fetch-redirect"),
    "a port of six digits": ("https://agent.example:000443/", "fetch-redirect"),
    "credentials": ("https://user:secret@agent.example/", "fetch-redirect"),
    "a name before another": ("https://agent.example@other.example/", "fetch-redirect"),
    "a backslash": ("https://agent.example\\@other.example/", "fetch-redirect"),
    "a file": ("file:///etc/passwd", "fetch-redirect"),
    "gopher": ("gopher://agent.example/_x", "fetch-redirect"),
    "ftp": ("ftp://agent.example/x", "fetch-redirect"),
    "data": ("data:application/json,1", "fetch-redirect"),
    "script": ("javascript:alert(1)", "fetch-redirect"),
    "nowhere": ("", "fetch-redirect"),
    "a broken bracket": ("https://[::1/", "fetch-redirect"),
    "a URL of 3 kB": ("https://agent.example/" + "x" * 3_000, "fetch-redirect"),
    "a space": ("https://agent.example/ x", "fetch-redirect"),
    "a private name": ("https://inside.example/", "fetch-address"),
    "a private name without a scheme": ("//inside.example/", "fetch-address"),
}


@pytest.mark.parametrize("what", BAD_REDIRECTS)
async def test_a_redirect_is_never_followed_to(what: str, server: Hostile, net: Net) -> None:
    location, code = BAD_REDIRECTS[what]
    net.names["inside.example"] = ["10.1.2.3", "fe80::1"]
    server.say(CARD, redirect(location))
    assert await refused(net.fetcher()) == code
    assert {address for address, _ in net.dialled} == {PUBLIC}
    assert server.paths() == [CARD]


@pytest.mark.parametrize("status", ["301 Moved", "302 Found", "303 See Other", "307 Temporary", "308 Permanent"])
async def test_three_redirects_are_followed_and_not_four(status: str, server: Hostile, net: Net) -> None:
    server.say(CARD, redirect("https://other.example/2", status))
    server.say("/2", redirect("3?x=1#part", status))
    server.say("/3?x=1", redirect("//agent.example/4", status))
    server.say("/4", ok(b'{"name": "four"}'))
    body = await net.fetcher().get(URL)
    assert (body.body, body.url) == (b'{"name": "four"}', "https://agent.example/4")
    server.say("/4", redirect("/5", status))
    server.say("/5", ok())
    assert await refused(net.fetcher()) == "fetch-redirects"


async def test_a_redirect_that_goes_round_ends(server: Hostile, net: Net) -> None:
    server.say(CARD, redirect(CARD))
    assert await refused(net.fetcher()) == "fetch-redirects"
    assert server.paths() == [CARD] * 4


async def test_where_a_badge_is_checked_no_redirect_leads_to_another_host(server: Hostile, net: Net) -> None:
    server.say(CARD, redirect("https://other.example/card"))
    server.say("/card", ok())
    assert await refused(net.fetcher(), same_host=True) == "fetch-redirect-host"
    server.say(CARD, redirect("/card"))
    assert (await net.fetcher().get(URL, same_host=True)).body == b"{}"


SPECIAL = [
    "127.0.0.1", "10.0.0.1", "172.31.255.255", "192.168.1.1", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1",  # noqa: S104
    "255.255.255.255", "198.18.0.1", "192.0.2.1", "203.0.113.9", "168.63.129.16", "240.0.0.1", "::", "::1", "fe80::1",
    "fe80::1%1", "fc00::1", "fd00:ec2::254", "ff02::1", "::ffff:10.0.0.1", "::ffff:8.8.8.8", "::10.0.0.1",
    "64:ff9b::a00:1", "64:ff9b::808:808", "64:ff9b:1::1", "2002:7f00:1::", "2001:0:4136:e378:8000:63bf:80ff:fffe",
    "2001:db8::1", "2001:10::1", "100::1", "fec0::1", "2a00:1450::5efe:a00:1", "4000::1",
]  # fmt: skip


@pytest.mark.parametrize("address", SPECIAL)
async def test_a_name_that_leads_to_a_special_address_is_never_connected_to(address: str, net: Net) -> None:
    net.names["agent.example"] = [address]
    assert await refused(net.fetcher()) == "fetch-address"
    assert net.dialled == []


async def test_of_public_and_private_addresses_only_the_public_one_gets_a_request(server: Hostile, net: Net) -> None:
    server.say(CARD, ok())
    net.names["agent.example"] = ["10.0.0.1", "::1", "2606:2800:220:1::1", PUBLIC]
    net.dead.add("2606:2800:220:1::1")
    assert (await net.fetcher().get(URL)).address == PUBLIC
    assert net.dialled == [("2606:2800:220:1::1", 443), (PUBLIC, 443)]


async def test_no_address_of_a_name_gets_a_request_without_a_budget(server: Hostile, net: Net) -> None:
    """A dead address in front of a victim's would otherwise hide who pays."""
    server.say(CARD, ok())
    net.names["agent.example"] = ["93.184.216.1", PUBLIC]
    net.dead.add("93.184.216.1")
    answers: list[tuple[str, str]] = []
    await net.fetcher().get(URL, admit=lambda host, address, _port: answers.append((host, str(address))))
    assert answers == [("agent.example", "93.184.216.1"), ("agent.example", PUBLIC)]

    def admit(host: str, address: object, _port: int) -> None:
        if str(address) == PUBLIC:
            raise FetchError("fetch-budget", "9 s", 9.0)

    net.dialled.clear()
    with pytest.raises(FetchError, match="next visit is in 9 s"):
        await net.fetcher().get(URL, admit=admit)
    assert net.dialled == [("93.184.216.1", 443)]


async def test_a_name_that_changes_its_answer_gains_nothing(server: Hostile, net: Net) -> None:
    """DNS rebinding: whatever is connected to is what was judged, for every connection anew."""
    server.say("/robots.txt", raw(answer("404 Not Found", b"", "Connection: close"), close=True))
    server.say(CARD, ok())
    net.names["agent.example"] = [[PUBLIC], ["127.0.0.1"]]
    assert await refused(net.fetcher()) == "fetch-address"
    assert net.dialled == [(PUBLIC, 443)]
    assert server.paths() == []


async def test_a_name_that_changes_its_answer_before_a_redirect_gains_nothing(server: Hostile, net: Net) -> None:
    moved = answer("302 Found", b"", f"Location: {URL}?2", "Connection: close")
    server.say(CARD, raw(moved, close=True))
    net.names["agent.example"] = [[PUBLIC], ["169.254.169.254"]]
    assert await refused(net.fetcher()) == "fetch-address"
    assert net.dialled == [(PUBLIC, 443)]


async def test_a_socket_that_is_connected_to_another_address_is_left_at_once(net: Net, server: Hostile) -> None:
    async def astray(address: str, port: int) -> object:
        stream = await net.dial(address, port)
        stream.address = "10.0.0.1"  # type: ignore[attr-defined]
        return stream

    fetcher = HttpFetcher(net, net.tls, limits=QUICK, dial=astray)  # type: ignore[arg-type]
    assert await refused(fetcher) == "fetch-address"
    assert server.requests == []


async def test_names_that_do_not_resolve_are_named(net: Net) -> None:
    net.names["agent.example"] = OSError("Name or service not known")
    assert await refused(net.fetcher()) == "fetch-resolve"
    net.names["agent.example"] = []
    assert await refused(net.fetcher()) == "fetch-resolve"
    net.names["agent.example"] = ["nonsense"]
    assert await refused(net.fetcher()) == "fetch-resolve"


async def test_a_name_that_resolves_slowly_is_given_up(net: Net) -> None:
    class Slow:
        async def resolve(self, _: str) -> list[str]:
            await asyncio.sleep(30)
            return [PUBLIC]

    fetcher = HttpFetcher(Slow(), net.tls, limits=QUICK, dial=net.dial)
    assert await refused(fetcher) == "fetch-resolve-slow"


async def test_a_host_that_does_not_answer_is_named(net: Net) -> None:
    net.names["agent.example"] = [PUBLIC, "93.184.216.35", "93.184.216.36", "93.184.216.37"]
    net.dead.update(net.names["agent.example"])
    assert await refused(net.fetcher()) == "fetch-connect"
    assert len(net.dialled) == 3

    async def never(address: str, port: int) -> object:
        await asyncio.sleep(30)
        raise AssertionError

    fetcher = HttpFetcher(net, net.tls, limits=replace(QUICK, connect=0.3), dial=never)  # type: ignore[arg-type]
    assert await refused(fetcher) == "fetch-connect-slow"


def _other_authority(_: trustme.CA) -> trustme.LeafCert:
    return trustme.CA().issue_cert(*HOSTS)


def _other_name(authority: trustme.CA) -> trustme.LeafCert:
    return authority.issue_cert("evil.example")


def _expired(authority: trustme.CA) -> trustme.LeafCert:
    return authority.issue_cert(*HOSTS, not_before=datetime(2020, 1, 1, tzinfo=UTC),
                                not_after=datetime(2021, 1, 1, tzinfo=UTC))  # fmt: skip


def _not_yet(authority: trustme.CA) -> trustme.LeafCert:
    return authority.issue_cert(*HOSTS, not_before=datetime(2900, 1, 1, tzinfo=UTC),
                                not_after=datetime(2901, 1, 1, tzinfo=UTC))  # fmt: skip


@pytest.mark.parametrize("issue", [_other_authority, _other_name, _expired, _not_yet])
async def test_a_wrong_certificate_is_never_accepted(
    issue: Callable[[trustme.CA], trustme.LeafCert], authority: trustme.CA
) -> None:
    async with Hostile(authority) as server:
        assert server.context is not None
        issue(authority).configure_cert(server.context)
        server.say(CARD, ok())
        assert await refused(Net(server, authority).fetcher()) == "fetch-tls"
        assert server.requests == []


async def test_old_tls_is_refused(authority: trustme.CA) -> None:
    async with Hostile(authority) as server:
        assert server.context is not None
        with pytest.warns(DeprecationWarning, match="TLSv1_1"):
            server.context.maximum_version = ssl.TLSVersion.TLSv1_1
        assert await refused(Net(server, authority).fetcher()) == "fetch-tls"


async def test_a_server_without_tls_is_refused(authority: trustme.CA) -> None:
    async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        await ok()(reader, writer)
        writer.close()

    async with Hostile(authority, tls=False, serve=speak) as server:
        assert await refused(Net(server, authority).fetcher()) == "fetch-tls"


async def test_a_handshake_that_stalls_is_given_up(authority: trustme.CA) -> None:
    async with Hostile(authority, tls=False) as server:
        assert await refused(Net(server, authority).fetcher(replace(QUICK, connect=0.3))) == "fetch-connect-slow"
        assert server.requests == []


def test_every_code_has_a_sentence_fit_to_stand_in_another() -> None:
    for code, sentence in SENTENCES.items():
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", code)
        assert not sentence.endswith(".")
        assert sentence[0].islower() or sentence.startswith("TLS")


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "agent.example=127.0.0.1:1",
        "agent.example:443=localhost:1",
        "agent.example:0=127.0.0.1:1",
        "localhost:443=127.0.0.1:1",
        "agent.example:443=127.0.0.1:65536",
        "agent.example:443=127.0.0.1:1,other.example:443=127.0.0.1:1",
        "a.example:443=::1:1",
    ],
)
def test_an_entry_of_the_table_that_is_none_is_named(text: str) -> None:
    with pytest.raises(ValueError, match="is not host:port=ip:port"):
        table(f"good.example:443=127.0.0.1:8443 {text}")


def test_the_table_reads_both_families() -> None:
    assert table(" Agent.example:443=127.0.0.1:8443\nb\u00fccher.example:80=[::1]:80 ") == {
        ("agent.example", 443): ("127.0.0.1", 8443),
        ("xn--bcher-kva.example", 80): ("::1", 80),
    }
