"""A chain of agents, and the loop that runs checks on their hosts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Self

from indexer.fetcher.card_fetcher import CardFetcher
from indexer.fetcher.dns import TxtRecords
from indexer.fetcher.fetch_loop import FetchLoop
from indexer.fetcher.host_names import DomainVerifier
from indexer.fetcher.http_fetcher import HttpFetcher
from overlay.listings.item_json import listing_json
from overlay.listings.listing import listings_of
from overlay.listings.repository import ListingRepository
from parsers import cards
from parsers.bitcoin.tx import Outpoint
from tests.chainkit import ChainKit
from tests.fakes import MemoryChain
from tests.hostile import QUICK, Net
from tests.indexing import Indexing
from tests.names import NameServer
from tests.pointer_facts import Clock


class CheckedRegistry:
    """A subclass names the checks that run beside those of cards and domains."""

    endpoint_ports = False
    limits = replace(QUICK, first_byte=4.0, total=20.0)

    def __init__(
        self, indexing: Indexing, chain: MemoryChain, kit: ChainKit, net: Net, dns: NameServer, clock: Clock
    ) -> None:
        self.indexing, self.store, self.clock, self.chain, self.kit = indexing, indexing.store, clock, chain, kit
        fetcher = net.fetcher(self.limits, clock=clock, endpoint_ports=self.endpoint_ports)
        txt = TxtRecords([dns.address])
        self.loop = FetchLoop(
            self.store, indexing.writer, CardFetcher(fetcher, clock=clock), DomainVerifier(fetcher, txt),
            checks=self.create_checks(fetcher, txt), clock=clock, ticking=clock,
        )  # fmt: skip

    @classmethod
    @contextmanager
    def open(cls, database_url: str, net: Net, dns: NameServer, clock: Clock) -> Iterator[Self]:
        kit = ChainKit()
        chain = MemoryChain(*kit.blocks)
        with Indexing(database_url, chain) as indexing:
            yield cls(indexing, chain, kit, net, dns, clock)

    def create_checks(self, fetcher: HttpFetcher, txt: TxtRecords) -> Sequence[Any]:
        raise NotImplementedError

    async def mine(self, outpoint: Outpoint) -> str:
        """Mine what was prepared, and index it. Returns the id."""
        self.chain.arrive(self.kit.mine(outpoint))
        await self.indexing.catch_up()
        return str(outpoint)

    async def after(self, milliseconds: int = 0) -> None:
        """Advance the clock; what can be fetched then, or as soon as budgets allow, is fetched."""
        self.clock.tick(milliseconds)
        for _ in range(4):
            await self.loop.look()
            self.loop.start()
            await self.loop.settle()
            self.clock.tick(60_000)

    def item(self, id_: str) -> dict[str, Any]:
        """A listing as `/v1/listings/{id}` answers it."""
        registration = ListingRepository(self.store).listing(id_)
        assert registration is not None
        assert registration.card_body is not None
        card = cards.read_of(id_, registration.card_body, registration.state.kind)
        return listing_json(listings_of(registration, card)[0])
