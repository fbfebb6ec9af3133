"""The contract of every database about headers: the best chain is there after a restart, also after a reorg."""

from __future__ import annotations

from itertools import pairwise

import pytest

from indexer.headers import header_chain as module
from indexer.headers.header_chain import HeaderChain
from indexer.headers.networks import Checkpoint, network
from indexer.store import Writer
from indexer.store.source_store import SourceStore
from parsers.bitcoin.tx import sha256d
from tests.headers import check_linked, hashes, line

REGTEST = network("bsv", "regtest")


def regtest(writer: Writer) -> HeaderChain:
    return HeaderChain("demo", REGTEST, SourceStore(writer))


def stored_headers(writer: Writer, chain: str = "demo") -> list[bytes]:
    """The headers in the database, which must follow one on the other."""
    pieces = list(SourceStore(writer).load_headers(chain))
    for (first, raw), (then, _) in pairwise(pieces):
        assert first + len(raw) // 80 == then
    joined = b"".join(raw for _, raw in pieces)
    return [joined[index : index + 80] for index in range(0, len(joined), 80)]


def test_headers_are_kept_over_starts_and_reorgs(writer: Writer) -> None:
    chain, answer = regtest(writer), line(5_000)
    chain.add(answer[:4_500])
    chain.save()
    chain.add(answer[4_500:])
    chain.save()
    chain.save()
    again = regtest(writer)
    again.load()
    assert hashes(again) == [sha256d(raw) for raw in answer]
    fork = line(20, prev=sha256d(answer[4_990]), first=4_991, root=4)
    again.add(fork)
    again.save()
    third = regtest(writer)
    third.load()
    assert hashes(third) == [sha256d(raw) for raw in [*answer[:4_991], *fork]]
    assert third.ref(2_016) == again.ref(2_016)
    other = HeaderChain("other", REGTEST, SourceStore(writer))
    other.load()
    assert other.tip() is None
    third.add(line(1, prev=sha256d(fork[-1]), first=5_011))
    check_linked(third)


def test_a_new_start_replaces_stored_headers(writer: Writer, monkeypatch: pytest.MonkeyPatch) -> None:
    pointed = line(60)
    points = tuple(Checkpoint(height, sha256d(pointed[height])) for height in (0, 40))
    monkeypatch.setattr(module, "checkpoints", lambda _network: points)
    chain = regtest(writer)
    chain.begin(30, pointed[30:])
    chain.save()
    chain.begin(10, pointed[10:])
    chain.save()
    again = regtest(writer)
    again.load()
    assert again.first == 10
    assert again.tip() == chain.tip()
    chain.begin(35, pointed[35:])
    chain.save()
    third = regtest(writer)
    third.load()
    assert third.first == 35


def test_headers_are_replaced_from_a_height_on(writer: Writer) -> None:
    answer = line(30)
    assert stored_headers(writer) == []
    SourceStore(writer).save_headers("demo", 0, b"".join(answer[:20]))
    SourceStore(writer).save_headers("demo", 20, b"".join(answer[20:]))
    assert stored_headers(writer) == answer
    SourceStore(writer).save_headers("demo", 12, b"".join(answer[12:14]))
    assert stored_headers(writer) == answer[:14]
    SourceStore(writer).save_headers("demo", 10, b"")
    assert stored_headers(writer) == answer[:10]
    SourceStore(writer).save_headers("demo", 0, b"")
    assert stored_headers(writer) == []
    SourceStore(writer).save_headers("demo", 700, answer[0])
    assert list(SourceStore(writer).load_headers("demo")) == [(700, answer[0])]
    assert stored_headers(writer, "other") == []


def test_headers_that_would_leave_a_gap_or_are_cut_are_not_kept(writer: Writer) -> None:
    answer = line(10)
    SourceStore(writer).save_headers("demo", 0, b"".join(answer))
    with pytest.raises(ValueError, match="which end below"):
        SourceStore(writer).save_headers("demo", 11, answer[0])
    with pytest.raises(ValueError, match="79 bytes are not headers"):
        SourceStore(writer).save_headers("demo", 10, answer[0][:79])
    assert stored_headers(writer) == answer
