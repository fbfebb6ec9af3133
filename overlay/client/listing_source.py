"""Listings and proofs of an overlay, as `overlay.verify` and `overlay.publish` read them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from indexer.headers.networks import ticker_of
from overlay.client import calls
from overlay.client.calls import Call
from overlay.listings.ids import parse_id
from overlay.verify import VerificationReport, server_answer, verify
from overlay.verify.domains import Hosts
from overlay.verify.trusted_source import TrustedSource
from parsers.cards import AgentCard, Kind, McpServer, read_of, server_id
from parsers.cards.offers import Offer, in_coin


class ClientSource:
    """A `ListingSource` over a function that gives the answer to a call as JSON, or as bytes where it is not JSON."""

    def __init__(self, ask: Callable[[Call[Any]], Any]) -> None:
        self._ask = ask
        self.item: Any = None
        self._proof: Any = None
        self._card = b""

    def listing(self, id_: str) -> Any:
        """The item."""
        self.item = self._ask(calls.get(id_))
        return self.item

    def card(self, id_: str) -> bytes:
        """The card's exact bytes."""
        self._card = self._ask(calls.card(id_))
        return self._card

    def proof(self, id_: str, first: int | None = None) -> Any:
        """The proof, with headers from height `first` on."""
        proof = self._ask(calls.proof(id_, first))
        self._proof = proof if first is None else self._proof
        return proof

    def evidence(self, id_: str, after: str | None = None) -> Any:
        """A page of its receipts."""
        return self._ask(calls.evidence(id_, after))

    def document(self, sha256: str) -> bytes:
        """A document that receipts name."""
        document: bytes = self._ask(calls.document(sha256))
        return document

    def entry(self) -> AgentCard | McpServer:
        """The agent or server in the card, once the listing has been verified with this source."""
        id_: str = self.item["id"]
        registration_id, _ = parse_id(id_)
        card = read_of(registration_id, self._card, Kind(self.item["type"]))
        if isinstance(card, AgentCard):
            return card
        return {server_id(registration_id, server.key, len(card.servers)): server for server in card.servers}[id_]

    def offers(self) -> tuple[Offer, ...]:
        """The offers in the card, once the listing has been verified with this source."""
        return tuple(in_coin(offer, ticker_of(self.item["caip2"])) for offer in self.entry().offers)

    def spent_outpoints(self) -> set[str]:
        """The outpoints that the transactions of its satoshi spend, once the listing has been verified with this
        source."""
        answer = server_answer.read(self.item["id"], self.item, self._proof, self._card)
        path = (answer.tx, *(hop.tx for hop in answer.hops))
        return {str(spent.prevout) for tx in path for spent in tx.inputs}


async def verified(
    send: Callable[[Call[Any]], Coroutine[Any, Any, Any]],
    id_: str,
    trusted: TrustedSource | None,
    hosts: Hosts | None,
    expected: str | None,
) -> tuple[VerificationReport, ClientSource]:
    """The report on a listing, and the answers that it was made of. The work is done in a thread, which sends its
    requests by `send` on this loop."""
    loop = asyncio.get_running_loop()
    source = ClientSource(lambda call: asyncio.run_coroutine_threadsafe(send(call), loop).result())
    report = await asyncio.to_thread(verify, source, id_, trusted=trusted, hosts=hosts, expected=expected)
    return report, source
