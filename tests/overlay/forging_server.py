"""A server of listings that a test forges, and a source of the user's own with answers that a test sets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from overlay import verify
from overlay.listings.local_source import LocalSource
from overlay.listings.repository import ListingRepository
from overlay.verify import VerificationReport
from parsers.bitcoin.tx import Outpoint, sha256d
from tests.chainkit import ChainKit
from tests.fakes import MemoryChain
from tests.indexing import Indexing

REGTEST = "bsv:regtest"

UPDATED = "dc35745fe6bf0623a33a2d79bcfeaeb9d34808c5d37d772598ebe5fa93db9dd7_0"
"""A registration of the sample chain that was inscribed anew, and stays there."""

MemberPath = tuple[str | int, ...]
Look = Callable[[ChainKit, str], LocalSource]


class Server:
    """Answers that a test may change before they are given."""

    def __init__(self, honest: LocalSource, *ids: str) -> None:
        self.items = {id_: honest.listing(id_) for id_ in ids}
        self.cards = {id_: honest.card(id_) for id_ in ids}
        self.proofs = {id_: honest.proof(id_) for id_ in ids}
        self.headers: list[str] = honest.proof(ids[0], 0)["headers"]
        self.page = len(self.headers)
        self.requests: list[int] = []

    def listing(self, id_: str) -> Any:
        return self.items[id_]

    def card(self, id_: str) -> bytes:
        return self.cards[id_]

    def proof(self, id_: str, first: int | None = None) -> Any:
        if first is None:
            return self.proofs[id_]
        self.requests.append(first)
        return self.proofs[id_] | {"from": first, "headers": self.headers[first : first + self.page]}


class FakeSource:
    """A source of the user's own with the answers that a test sets."""

    name = "my node"
    knows_heights = True

    def __init__(
        self,
        holds: bool | None = None,
        unspent: bool | None = None,
        values: dict[Outpoint, int] | None = None,
        headers: Sequence[str] = (),
    ) -> None:
        self._holds, self._unspent, self._values = holds, unspent, values or {}
        self._headers = [bytes.fromhex(header) for header in headers]

    def holds(self, _header: bytes, _height: int) -> bool | None:
        return self._holds

    def height(self) -> int | None:
        return len(self._headers) - 1 if self._headers else None

    def block_hash(self, height: int) -> bytes | None:
        return sha256d(self._headers[height]) if height < len(self._headers) else None

    def unspent(self, _outpoint: Outpoint) -> bool | None:
        return self._unspent

    def satoshis(self, outpoint: Outpoint) -> int | None:
        return self._values.get(outpoint)


def check(server: Any, id_: str = UPDATED, **more: Any) -> VerificationReport:
    more.setdefault("expected", REGTEST)
    return verify.verify(server, id_, **more)


def words(report: VerificationReport, step: str, outcome: str = verify.NOT_PROVED) -> str:
    (result,) = [item for item in report.steps if item.step == step]
    assert result.outcome == outcome
    return result.detail


def paths(value: Any, path: MemberPath = ()) -> Iterator[MemberPath]:
    """The path of every member and element, nested ones too."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in inside:
        yield (*path, step)
        yield from paths(inner, (*path, step))


def remove(answer: Any, path: MemberPath) -> None:
    """Remove the member or element at a path."""
    for step in path[:-1]:
        answer = answer[step]
    del answer[path[-1]]


@pytest.fixture
def look(tmp_path: Path) -> Iterator[Callable[[ChainKit, str], LocalSource]]:
    """The answers of who followed a chain that a test mined."""
    with ExitStack() as stack:

        def follow(kit: ChainKit, coin: str) -> LocalSource:
            chain = MemoryChain(*kit.blocks, name="demo", coin=coin)
            indexing = stack.enter_context(Indexing(f"sqlite:///{tmp_path}/{coin}.db", chain))
            asyncio.run(indexing.catch_up())
            return LocalSource(ListingRepository(indexing.store))

        yield follow
