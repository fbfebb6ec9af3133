"""Whatever bytes a server answers with: an answer, or a refusal with a reason, and never another exception."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import Sequence
from typing import Any

import httpcore
from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from indexer.fetcher.card_fetcher import CardFetcher, CardRequest, CardState
from indexer.fetcher.http_fetcher import HttpFetcher
from indexer.fetcher.reasons import SENTENCES
from tests.hostile import QUICK, answer

ANYTHING = CardRequest(hashless=True)

URL = "http://agent.example/card.json"
TABLE = {("agent.example", 80): ("127.0.0.1", 1)}
TLS = ssl.create_default_context()


class Canned(httpcore.AsyncNetworkStream):
    """A connection on which each request is answered by the next of these bytes, in reads of at most `size`."""

    def __init__(self, answers: list[bytes], size: int) -> None:
        self._answers, self._size, self._left = answers, size, b""

    async def read(self, max_bytes: int, *_: Any, **__: Any) -> bytes:
        size = min(self._size, max_bytes)
        data, self._left = self._left[:size], self._left[size:]
        return data

    async def write(self, buffer: bytes, *_: Any, **__: Any) -> None:
        if buffer.startswith(b"GET "):
            self._left = self._answers.pop(0) if self._answers else b""

    async def aclose(self) -> None:
        pass

    def get_extra_info(self, info: str) -> Any:
        return bool(self._left) if info == "is_readable" else None


class Nowhere:
    async def resolve(self, host: str) -> Sequence[str]:
        raise AssertionError(f"{host} was looked up")


def fetch(answers: Sequence[bytes], size: int = 1_000) -> Any:
    """The result of a fetch when requests get these answers, on any number of connections."""
    left = list(answers)

    async def dial(_: str, __: int) -> httpcore.AsyncNetworkStream:
        return Canned(left, size)

    fetcher = HttpFetcher(Nowhere(), TLS, TABLE, QUICK, dial=dial)
    return asyncio.run(CardFetcher(fetcher).fetch_card(URL, ANYTHING))


NO_ROBOTS = answer("404 Not Found")
HEADERS = st.lists(
    st.sampled_from(
        [
            "Content-Encoding: gzip",
            "Content-Encoding: deflate",
            "Transfer-Encoding: chunked",
            "Content-Length: 2",
            "Connection: close",
            "Location: /card.json",
            "Location: http://agent.example:80/%",
            "Location: \xb2",
            "Retry-After: \xb2",
            "Retry-After: Thu, 99 Jan 9999",
            "ETag: \x80",
            "Last-Modified: never",
        ]
    )
    | st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters=":"), min_size=1).map(
        "x: {}".format
    ),
    max_size=3,
)
ANSWERS = st.builds(
    lambda status, headers, body, length: answer(status, body, *headers, length=length),
    st.sampled_from(["200 OK", "302 Found", "304 Not Modified", "429 Wait", "100 Continue", "101 Switch", "204 None"])
    | st.integers(200, 599).map("{} Any".format),
    HEADERS | st.lists(st.text(st.characters(max_codepoint=255), max_size=30), max_size=2),
    st.binary(max_size=60) | st.sampled_from([b"{}", gzip.compress(b"{}"), b"2\r\n{}\r\n0\r\n\r\n"]),
    st.booleans(),
)


@settings(deadline=None, max_examples=300)
@given(st.lists(ANSWERS | ANSWERS | st.binary(max_size=60), min_size=1, max_size=6), st.sampled_from([1, 7, 1_000]))
@example([answer("200 OK", b"{}")], 1_000)
@example([answer("200 OK", b"{}", "Content-Length: \xb2", length=False)], 1_000)
@example([answer("429 Wait", b"", "Retry-After: \xb2")], 1_000)
@example([answer("302 Found", b"", "Location: \xff")], 1)
def test_any_answers_are_a_card_or_a_refusal(answers: list[bytes], size: int) -> None:
    fetched = fetch([NO_ROBOTS, *answers], size)
    event(fetched.refusal.code if fetched.refusal else fetched.state.value)
    if fetched.state is CardState.FAILED:
        assert fetched.refusal.code in SENTENCES
        assert fetched.refusal.sentence.isprintable()
    else:
        assert fetched.state is CardState.UNHASHED
        assert fetched.accepted.body.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{")


@settings(deadline=None, max_examples=50)
@given(st.binary(max_size=300), st.integers(1, 50), st.booleans(), st.booleans())
def test_a_body_arrives_as_it_was_sent(body: bytes, size: int, zipped: bool, chunked: bool) -> None:
    """However it is cut, framed and coded."""
    card = b"{" + body
    sent = gzip.compress(card) if zipped else card
    headers = ["Content-Encoding: gzip"] if zipped else []
    if chunked:
        pieces = [sent[index : index + size] for index in range(0, len(sent), size)]
        framed = b"".join(b"%x;x=y\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\nt: u\r\n\r\n"
        data = answer("200 OK", framed, "Transfer-Encoding: chunked", *headers, length=False)
    else:
        data = answer("200 OK", sent, *headers)
    fetched = fetch([NO_ROBOTS, data], size)
    assert (fetched.state, fetched.accepted.body) == (CardState.UNHASHED, card)


@settings(deadline=None)
@given(st.binary(max_size=60) | ANSWERS)
def test_any_robots_leaves_the_card_or_a_refusal(raw: bytes) -> None:
    fetched = fetch([raw, answer("200 OK", b"{}")])
    assert fetched.state in (CardState.UNHASHED, CardState.FAILED)
