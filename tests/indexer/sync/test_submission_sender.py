"""Submitted transactions are sent to the source, parents first; what it refuses stays pending."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from indexer.admission.admission import Admissions
from indexer.errors import SourceError
from indexer.sync import submission_sender
from indexer.sync.submission_sender import SubmissionSender
from parsers.bitcoin.tx import read
from tests.indexing import Indexing, empty, fresh, unconfirmed_ids
from tests.minting import Mint

__all__ = ["empty"]


class Sending:
    """A mint's chain, and what sends to it."""

    def __init__(self, mint: Mint, indexing: Indexing) -> None:
        self.mint, self.indexing = mint, indexing
        self.sender = SubmissionSender(mint.chain, indexing.store.submissions)

    def submit(self, *raws: bytes) -> list[bytes]:
        Admissions(self.indexing.store).submit(self.mint.package(*raws))
        return [read(raw).txid for raw in raws]


@pytest.fixture
async def sending(empty: Path) -> AsyncIterator[Sending]:
    mint = Mint()
    with fresh(empty, mint.chain) as indexing:
        await indexing.catch_up()
        yield Sending(mint, indexing)


async def test_each_transaction_is_sent_once_and_parents_before_their_children(sending: Sending) -> None:
    mint, coin = sending.mint, sending.mint.coins[0]
    raws = list[bytes]()
    for number in range(6):
        raws.append(mint.inscribed(f"Link {number}", 1 + number, coin))
        coin = mint.coin_of(raws[-1], 1)
    txids = sending.submit(*raws)
    await sending.sender.send()
    assert mint.chain.sent == txids
    await sending.sender.send()
    assert mint.chain.sent == txids
    await sending.indexing.refresh()
    assert len(unconfirmed_ids(sending.indexing.store)) == 6


async def test_what_the_source_refuses_stays_pending_and_is_sent_again(
    sending: Sending, monkeypatch: pytest.MonkeyPatch
) -> None:
    mint = sending.mint
    [txid] = sending.submit(mint.inscribed("Refused"))
    rival = mint.payment()
    mint.chain.unconfirmed[read(rival).txid] = rival
    [other] = sending.submit(mint.inscribed("Other", 1))
    await sending.sender.send()
    await sending.sender.send()
    assert mint.chain.sent == [other]
    assert txid in sending.indexing.store.submissions.pending("live")
    mint.chain.unconfirmed.clear()
    monkeypatch.setattr(submission_sender, "REFUSED_SECONDS", 0)
    mint.chain.unconfirmed[read(rival).txid] = rival
    again = SubmissionSender(mint.chain, sending.indexing.store.submissions)
    await again.send()
    mint.chain.unconfirmed.clear()
    await again.send()
    assert mint.chain.sent == [other, txid]


async def test_a_source_that_does_not_answer_loses_nothing(sending: Sending) -> None:
    [txid] = sending.submit(sending.mint.inscribed("Patient"))
    sending.mint.chain.down = "no route"
    with pytest.raises(SourceError):
        await sending.sender.send()
    sending.mint.chain.down = ""
    await sending.sender.send()
    assert sending.mint.chain.sent == [txid]


async def test_what_is_in_a_block_is_not_sent(sending: Sending) -> None:
    raw = sending.mint.inscribed("Mined")
    sending.submit(raw)
    sending.mint.mine(raw)
    await sending.indexing.refresh()
    await sending.sender.send()
    assert sending.mint.chain.sent == []
